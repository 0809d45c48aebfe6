import { readFileSync } from 'node:fs'
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'

export type Schema = { [keyword: string]: unknown; examples?: unknown[] }
type Parameter = { name: string; in: 'path' | 'query' | 'header'; required?: boolean; schema: Schema; example?: string }
type Described = {
  operationId: string
  parameters?: (Parameter | { $ref: string })[]
  requestBody?: { content: { 'application/json'?: { schema: Schema | { $ref: string } } } }
}
export type Operation = {
  id: string
  method: string
  path: string
  /** The prefix of the id that each place in the path takes. */
  ids: string[]
  query: Parameter[]
  body: Schema | undefined
}
/** `unsaid`: fits what JSON Schema can say, and is not one of the examples of what it cannot, such as a range of addresses. */
export type Verdict = 'valid' | 'invalid' | 'unsaid'

const document = JSON.parse(readFileSync(new URL('../../openapi.json', import.meta.url), 'utf8'))

/** Without references, which the generator would otherwise have to follow. No request shape contains itself. */
function inlined(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(inlined)
  if (value === null || typeof value !== 'object') return value
  if ('$ref' in value) return inlined(at(String(value.$ref)))
  return Object.fromEntries(Object.entries(value).map(([key, part]) => [key, inlined(part)]))
}
const at = (ref: string): unknown =>
  ref
    .slice(2)
    .split('/')
    .reduce((place: unknown, step) => (place as Record<string, unknown>)[step], document)

// What the document can say only in words of its own.
const beyondSchema = ['x-cidr', 'x-moment', 'x-domain', 'x-hostport', 'x-maxBytes']
const plain = new Ajv2020({ strict: false, validateFormats: false, code: { optimize: false } })
const careful = new Ajv2020({ strict: false, validateFormats: false, code: { optimize: false } })
for (const keyword of beyondSchema)
  careful.addKeyword({
    keyword,
    validate: (most: unknown, data: unknown, parent?: Schema) =>
      typeof data !== 'string' ||
      (keyword === 'x-maxBytes' ? Buffer.byteLength(data) <= Number(most) : parent?.examples?.includes(data) === true),
  })

const validators = new WeakMap<Schema, [ValidateFunction, ValidateFunction]>()
export function verdictOf(schema: Schema, value: unknown): Verdict {
  const [fits, isSurelyValid] = validators.get(schema) ?? [plain.compile(schema), careful.compile(schema)]
  validators.set(schema, [fits, isSurelyValid])
  if (!fits(value)) return 'invalid'
  return isSurelyValid(value) ? 'valid' : 'unsaid'
}

/** Every operation of openapi.json. */
export const operations: readonly Operation[] = Object.entries<Record<string, Described>>(document.paths).flatMap(
  ([path, methods]) =>
    Object.entries(methods).map(([method, { operationId, parameters = [], requestBody }]) => {
      const all = inlined(parameters) as Parameter[]
      const body = inlined(requestBody?.content['application/json']?.schema) as Schema | undefined
      return {
        id: operationId,
        method: method.toUpperCase(),
        path,
        ids: all.filter((each) => each.in === 'path').map(({ example = '' }) => /^[a-z]+_/.exec(example)?.[0] ?? ''),
        query: all.filter((each) => each.in === 'query'),
        body,
      }
    }),
)
