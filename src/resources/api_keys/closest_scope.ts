import { closest } from '../../kernel/closest.ts'

/** The most likely intended scope: an operation, or all of a resource or of a verb. Undefined when none is near. */
export const closestScope = (wanted: string, operations: readonly string[]): string | undefined =>
  closest(
    wanted,
    operations.flatMap((operation) => {
      const parts = operation.split('.')
      return [operation, `${parts[0]}.*`, `*.${parts.at(-1)}`]
    }),
  )
