import { componentOf, type DocumentOperation, deref, type Parameter, paths, type Schema } from './document.ts'
import { type CommandFlag, type Flag, flagsOf } from './flags.ts'

/** One operation of the API as a command: the words to type, and what may follow them. */
export type Operation = {
  readonly words: readonly string[]
  readonly id: string
  readonly summary: string
  readonly method: string
  readonly path: string
  /** What must follow the words, in this order: the parameters of the path, and of a shortcut fields of the body. */
  readonly positionals: readonly { name: string; place: 'path' | 'body' }[]
  readonly flags: readonly Flag[]
  readonly body?: Schema
  /** Content types of the body other than JSON. */
  readonly otherBodies: readonly string[]
  readonly response?: Schema
  /** Content types of the answer other than JSON. */
  readonly otherResponses: readonly string[]
  /** The answer is a stream that stays open. */
  readonly streams: boolean
  /** The field of the response that holds the list. */
  readonly listField?: string
  readonly creates: boolean
}

const verbs: Record<string, string> = { post: 'create', patch: 'update', put: 'replace', delete: 'delete' }
const toWord = (name: string) => name.replaceAll('_', '-')

/**
 * The one rule from a path and a method to words. The words of the path without its parameters, then a verb: create,
 * list, get, update, replace, delete. An operation that is named for the last word of its path and has that path to
 * itself, such as `ip_restrictions.warnings`, has that word as its verb.
 */
function wordsOf(path: string, method: string, { operationId }: DocumentOperation, isList: boolean): string[] {
  const words = path.split('/').filter((part) => part && !part.startsWith('{'))
  const verb = verbs[method] ?? (isList ? 'list' : 'get')
  const isAlone = Object.keys(paths[path] ?? {}).length === 1
  const isVerbItself = isAlone && words.length > 1 && operationId.split('.').at(-1) === words.at(-1)
  return [...words.map(toWord), ...(isVerbItself ? [] : [verb])]
}

function toOperation(path: string, method: string, operation: DocumentOperation): Operation {
  const success = Object.entries(operation.responses).find(([status]) => status.startsWith('2'))
  const shown = success?.[1].content?.['application/json']?.schema
  const response = shown && deref<Schema>(shown)
  const isList = shown !== undefined && componentOf(shown).endsWith('List')
  const listField = isList
    ? Object.entries(response?.properties ?? {}).find(([, { type }]) => type === 'array')?.[0]
    : undefined
  const parameters = operation.parameters.map((parameter) => deref<Parameter>(parameter))
  const content = operation.requestBody?.content ?? {}
  const body = content['application/json'] && deref<Schema>(content['application/json'].schema)
  const positionals = [...path.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => ({ name, place: 'path' as const }))
  let flags: readonly Flag[] | undefined
  return {
    words: wordsOf(path, method, operation, isList),
    id: operation.operationId,
    summary: operation.summary,
    method: method.toUpperCase(),
    path,
    positionals,
    // Only of the operation that is typed: the schemas of all of them would be read for every command.
    get flags() {
      flags ??= flagsOf(
        parameters,
        body,
        positionals.map(({ name }) => name),
      )
      return flags
    },
    ...(body && { body }),
    otherBodies: Object.keys(content).filter((type) => type !== 'application/json'),
    ...(response && { response }),
    otherResponses: Object.keys(success?.[1].content ?? {}).filter((type) => type !== 'application/json'),
    streams: Object.keys(success?.[1].content ?? {}).includes('text/event-stream'),
    ...(listField && { listField }),
    creates: parameters.some(({ name }) => name === 'Idempotency-Key'),
  }
}

/** For what people type most: other words for an operation, and a field of its body without its flag. */
const shortcuts: readonly { words: string[]; id: string; field?: string }[] = [
  { words: ['check'], id: 'ip_checks.create', field: 'ip' },
  { words: ['refusals', 'new'], id: 'newly_refused_addresses.list' },
]

export const operations: readonly Operation[] = Object.entries(paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => toOperation(path, method, operation)),
)

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

/** What can be typed after these words, and what it is. */
export const below = (words: readonly string[]): readonly Operation[] =>
  typed.filter((operation) => beginsWith(operation.words, words) && operation.words.length > words.length)

/** The flags of the command itself that make sense with an operation. */
export const usableFlags = ({ listField, body, method }: Operation): CommandFlag[] => [
  ...(listField ? (['all'] as const) : []),
  ...(body ? (['data', 'file'] as const) : []),
  'output',
  ...(listField ? (['columns'] as const) : []),
  'profile',
  'timeout',
  ...(method === 'DELETE' ? (['yes'] as const) : []),
  'verbose',
  'help',
]

export type Found = { operation: Operation; rest: string[] } | { group: string[]; unknown?: string }

/**
 * The operation that the arguments begin with. A group with one operation only is that operation: `gatehouse caller`.
 * Otherwise how far the words are known.
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
