// The operations as a file of the bundle. Reading openapi.json, which has them all with their schemas and examples, would be a
// third of what a short command costs.
import type { Flag } from './flags.ts'
import type { Operation } from './operation.ts'

/** Flags are most of the file. As a text of their own they are read for the operation that was typed only. */
type Bundled = Omit<Operation, 'flags'> & { readonly flags: string }

export const toBundle = (operations: readonly Operation[]): string =>
  JSON.stringify(operations.map((operation): Bundled => ({ ...operation, flags: JSON.stringify(operation.flags) })))

export const operationsIn = (text: string): Operation[] =>
  (JSON.parse(text) as Bundled[]).map(({ flags: flagsText, ...operation }) => {
    let flags: Flag[] | undefined
    return {
      ...operation,
      get flags() {
        flags ??= JSON.parse(flagsText) as Flag[]
        return flags
      },
    }
  })
