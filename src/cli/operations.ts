import { readFileSync } from 'node:fs'
import { packageFiles } from '../kernel/package_files.ts'
import { operationsIn } from './bundled_operations.ts'
import { documentedOperations } from './documented_operations.ts'
import type { CommandFlag } from './flags.ts'
import type { Operation } from './operation.ts'

/** Shortcuts for frequent commands: other words for an operation, and a body field without its flag. */
const shortcuts: readonly { words: string[]; id: string; field?: string }[] = [
  { words: ['check'], id: 'ip_checks.create', field: 'ip' },
  { words: ['refusals', 'new'], id: 'newly_refused_addresses.list' },
]

export const operations: readonly Operation[] = packageFiles.operations
  ? operationsIn(readFileSync(packageFiles.operations, 'utf8'))
  : documentedOperations()

export const shortcutOperations: readonly Operation[] = shortcuts.flatMap(({ words, id, field }) =>
  operations
    .filter((operation) => operation.id === id)
    .map((operation) => ({
      ...operation,
      words,
      positionals: [...operation.positionals, ...(field ? [{ name: field, place: 'body' as const }] : [])],
      flags: operation.flags.filter(({ name }) => name !== field),
    })),
)

const typed = [...operations, ...shortcutOperations]
const beginsWith = (words: readonly string[], start: readonly string[]) =>
  start.every((word, index) => words[index] === word)

/** What can be typed after these words, with descriptions. */
export const below = (words: readonly string[]): readonly Operation[] =>
  typed.filter((operation) => beginsWith(operation.words, words) && operation.words.length > words.length)

/** The command's own flags that apply to an operation. */
export const usableFlags = ({ listField, body, method, fields, flags, streams }: Operation): CommandFlag[] => [
  ...(listField ? (['all', 'filter', 'sort-by'] as const) : []),
  ...(body ? (['data', 'file'] as const) : []),
  'output',
  ...(listField ? (['columns'] as const) : []),
  ...(fields.length && !streams ? (['template'] as const) : []),
  ...(method === 'GET' && !streams ? (['watch'] as const) : []),
  ...(flags.some(({ name }) => name === 'wait') ? (['min-nodes'] as const) : []),
  'profile',
  'timeout',
  ...(method === 'DELETE' ? (['yes'] as const) : []),
  'verbose',
  'help',
]

export type Found = { operation: Operation; rest: string[] } | { group: string[]; unknown?: string }

/**
 * The operation that the arguments begin with. A group with a single operation counts as that operation: `gatehouse
 * caller`. Otherwise returns how many of the words are known.
 */
export function findOperation(args: readonly string[]): Found {
  const flagsBegin = args.findIndex((arg) => arg.startsWith('-'))
  const candidates = args.slice(0, flagsBegin < 0 ? undefined : flagsBegin)
  for (let length = candidates.length; length > 0; length--) {
    const words = candidates.slice(0, length)
    const rest = args.slice(length)
    const exact = typed.find((operation) => operation.words.length === length && beginsWith(operation.words, words))
    if (exact) return { operation: exact, rest }
    const inside = below(words)
    if (inside.length === 0) continue
    const [only] = inside
    const isComplete = rest[0] === undefined || rest[0].startsWith('-') || inside.length === 1
    if (inside.length === 1 && only && isComplete) return { operation: only, rest }
    return { group: words, ...(candidates[length] !== undefined && { unknown: candidates[length] }) }
  }
  return { group: [], ...(args[0] !== undefined && { unknown: args[0] }) }
}
