// The commands of the API's operations, as openapi.json describes them.
import { componentOf, type DocumentOperation, deref, type Parameter, paths, type Schema, typesOf } from './document.ts'
import { type Flag, secretFields } from './flags.ts'
import type { Operation } from './operation.ts'

export const documentedOperations = (): Operation[] =>
  Object.entries(paths()).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => toOperation(path, method, operation)),
  )

const verbs: Record<string, string> = { post: 'create', patch: 'update', put: 'replace', delete: 'delete' }
const toWord = (name: string) => name.replaceAll('_', '-')
/** Excludes `gatehouse cells`, which is the operator's command about the cells of all accounts. */
const takenWords: Record<string, string> = { cells: 'account-cells' }

/**
 * The one rule from a path and a method to words. The words of the path without its parameters, then a verb: create,
 * list, get, update, replace, delete. An operation that is named for the last word of its path and has that path to
 * itself, such as `ip_restrictions.warnings`, has that word as its verb.
 */
function wordsOf(path: string, method: string, { operationId }: DocumentOperation, isList: boolean): string[] {
  const words = path.split('/').filter((part) => part && !part.startsWith('{'))
  const verb = verbs[method] ?? (isList ? 'list' : 'get')
  const isAlone = Object.keys(paths()[path] ?? {}).length === 1
  const isVerbItself = isAlone && words.length > 1 && operationId.split('.').at(-1) === words.at(-1)
  return [...words.map((word) => takenWords[word] ?? toWord(word)), ...(isVerbItself ? [] : [verb])]
}

const shownSchema = (response: Schema = {}, listField: string | undefined): Schema =>
  listField ? deref<Schema>(deref<Schema>(response.properties?.[listField] ?? {}).items ?? {}) : response

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
  return {
    words: wordsOf(path, method, operation, isList),
    id: operation.operationId,
    summary: operation.summary,
    method: method.toUpperCase(),
    path,
    positionals,
    flags: flagsOf(
      parameters,
      body,
      positionals.map(({ name }) => name),
    ),
    ...(body && { body: { required: body.required ?? [] } }),
    otherBodies: Object.keys(content).filter((type) => type !== 'application/json'),
    fields: Object.keys(shownSchema(response, listField).properties ?? {}),
    otherResponses: Object.keys(success?.[1].content ?? {}).filter((type) => type !== 'application/json'),
    streams: Object.keys(success?.[1].content ?? {}).includes('text/event-stream'),
    ...(listField && { listField }),
    creates: parameters.some(({ name }) => name === 'Idempotency-Key'),
  }
}

const toFlagName = (path: readonly string[]) => path.map((step) => step.toLowerCase().replaceAll('_', '-')).join('.')

const isPemList = ({ items }: Schema): boolean => Boolean(items && deref<Schema>(items)['x-pem'])

function kindOf(schema: Schema): Flag['kind'] {
  const types = new Set(typesOf(schema))
  if (schema['x-pem']) return 'file'
  if (isPemList(schema)) return 'files'
  if (types.has('boolean')) return 'boolean'
  if (types.has('integer') || types.has('number')) return 'number'
  if (types.has('array')) return typesOf(deref(schema.items ?? {})).includes('string') ? 'list' : 'json'
  if (types.has('object')) return schema.properties ? 'json' : 'map'
  return 'text'
}

function toFlag(place: Flag['place'], path: readonly string[], schema: Schema, required: boolean): Flag {
  const choices = (schema.enum ?? deref<Schema>(schema.items ?? {}).enum)?.map(String)
  return {
    // A file's contents may be secret, so only its name is an argument.
    name: schema['x-pem'] || isPemList(schema) ? `${toFlagName(path)}-file` : toFlagName(path),
    place,
    path,
    kind: kindOf(schema),
    nullable: typesOf(schema).includes('null'),
    required,
    description: schema.description ?? schema['x-must']?.replace(/^must be /, '') ?? '',
    ...(choices && { choices }),
    ...(isNumericMap(schema) && { numeric: true }),
  }
}

const isNumericMap = ({ additionalProperties }: Schema): boolean =>
  typeof additionalProperties === 'object' && typesOf(additionalProperties).includes('integer')

/** A field, or with dots a nested field: `--tls '{"enabled": true}'` or `--tls.enabled`. */
function bodyFlags(schema: Schema, above: readonly string[], skip: readonly string[]): Flag[] {
  return Object.entries(schema.properties ?? {}).flatMap(([name, referred]) => {
    // A PATCH body may repeat the id of its path, which was typed already.
    if (skip.includes(name) || secretFields.includes(name)) return []
    const inner = deref<Schema>(referred)
    const path = [...above, name]
    const isRequired = above.length === 0 && (schema.required ?? []).includes(name)
    return [toFlag('body', path, inner, isRequired), ...bodyFlags(inner, path, [])]
  })
}

function flagsOf(parameters: readonly Parameter[], body: Schema | undefined, inPath: readonly string[]): Flag[] {
  const flags = documentedFlags(parameters, body, inPath)
  return flags.map((flag) => {
    const shorter = flag.name.replace(flag.kind === 'number' ? /-seconds$/ : /s$/, '')
    if (shorter === flag.name || flags.some(({ name }) => name === shorter)) return flag
    if (flag.kind === 'number') return { ...flag, asDuration: shorter }
    return flag.kind === 'list' || flag.kind === 'map' ? { ...flag, singular: shorter } : flag
  })
}

const documentedFlags = (
  parameters: readonly Parameter[],
  body: Schema | undefined,
  inPath: readonly string[],
): Flag[] => [
  ...bodyFlags(body ?? {}, [], inPath),
  ...parameters
    .filter(({ in: place }) => place === 'query' || place === 'header')
    .map(({ in: place, name, required = false, description, schema }) =>
      toFlag(place as Flag['place'], [name], { ...(description && { description }), ...schema }, required),
    ),
]
