// The operations as a file of the bundle. Reading openapi.json, which also has all schemas and examples, would take a
// third of the time of a short command.
import type { Flag } from './flags.ts'
import type { Operation } from './operation.ts'

/** Flags are most of the file. They have a separate line, which is parsed only for the operation that was typed. */
type Bundled = Omit<Operation, 'flags'>

export const toBundle = (operations: readonly Operation[]): string =>
  [operations.map(({ flags: _, ...operation }): Bundled => operation), ...operations.map(({ flags }) => flags)]
    .map((line) => JSON.stringify(line))
    .join('\n')

export function operationsIn(text: string): Operation[] {
  const [first = '', ...flagsOf] = text.split('\n')
  return (JSON.parse(first) as Bundled[]).map((operation, index) => {
    let flags: Flag[] | undefined
    return Object.defineProperty(operation as Operation, 'flags', {
      enumerable: true,
      get() {
        flags ??= JSON.parse(flagsOf[index] ?? '') as Flag[]
        return flags
      },
    })
  })
}
