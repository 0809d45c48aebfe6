import { closest } from '../../kernel/closest.ts'

/** The most likely intended scope: an operation, all of a resource, or all of a verb. Undefined if none is similar. */
export const closestScope = (wanted: string, operations: readonly string[]): string | undefined =>
  closest(
    wanted,
    operations.flatMap((operation) => {
      const parts = operation.split('.')
      return [operation, `${parts[0]}.*`, `*.${parts.at(-1)}`]
    }),
  )
