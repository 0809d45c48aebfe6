import fc from 'fast-check'
import type { Route } from '../../src/http/route.ts'

/** As much of JSON Schema as request shapes use. */
export type Schema = {
  type?: string | string[]
  properties?: Record<string, Schema>
  required?: string[]
  additionalProperties?: boolean | Schema
  patternProperties?: Record<string, Schema>
  items?: Schema
  minItems?: number
  anyOf?: Schema[]
  enum?: unknown[]
  const?: unknown
  pattern?: string
  examples?: unknown[]
  minimum?: number
  'x-maxBytes'?: number
  'x-moment'?: true
  'x-cidr'?: true
  'x-domain'?: true
  'x-hostport'?: object
}
type Step = string | 0
/** One place in a request body: where it is, and what may be there. */
export type Field = { path: Step[]; schema: Schema }

/** As the service names it: `tls.enabled`, `ip_policy_ids[0]`. */
export const nameOf = ({ path }: Field): string =>
  path.map((step, index) => (step === 0 ? '[0]' : index ? `.${step}` : step)).join('')

/** The name of an entry of a map, where any is allowed. */
const entryName = 'x'
const entrySchema = ({ additionalProperties, patternProperties }: Schema): Schema | undefined =>
  Object.values(patternProperties ?? {})[0] ??
  (typeof additionalProperties === 'object' ? additionalProperties : undefined)

function stepsInto(schema: Schema): [Step, Schema][] {
  const entry = entrySchema(schema)
  return [
    ...Object.entries(schema.properties ?? {}),
    ...(schema.items ? [[0, schema.items] as [Step, Schema]] : []),
    ...(entry ? [[entryName, entry] as [Step, Schema]] : []),
    ...(schema.anyOf ?? []).flatMap(stepsInto),
  ]
}

/** Every field of a body, however deep. */
export const fieldsOf = (schema: Schema, path: Step[] = []): Field[] =>
  stepsInto(schema).flatMap(([step, inner]) => [
    { path: [...path, step], schema: inner },
    ...fieldsOf(inner, [...path, step]),
  ])

const typesOf = ({ type, anyOf, enum: values, const: constant }: Schema): string[] => [
  ...[type ?? []].flat(),
  ...(anyOf ?? []).flatMap(typesOf),
  ...(type || anyOf
    ? []
    : [...(values ?? []), ...(constant === undefined ? [] : [constant])].map((value) => typeof value)),
]

const oneOfEachType: [type: string, value: unknown][] = [
  ['null', null],
  ['boolean', true],
  ['integer', 7],
  ['number', 1.5],
  ['string', 'text'],
  ['array', []],
  ['object', {}],
]

/** A value of every JSON type that this place does not take. */
export function wrongValues(schema: Schema): unknown[] {
  const types = new Set(typesOf(schema))
  if (types.size === 0) return []
  if (types.has('number')) types.add('integer')
  return oneOfEachType.filter(([type]) => !types.has(type)).map(([, value]) => value)
}

/** Something that the schema takes, with nothing in it that need not be. */
export function sample(schema: Schema): unknown {
  if (schema.const !== undefined) return schema.const
  if (schema.enum) return schema.enum[0]
  if (schema.anyOf?.[0]) return sample(schema.anyOf[0])
  const [type] = [schema.type].flat()
  switch (type) {
    case 'string':
      return String(schema.examples?.[0] ?? (schema.pattern ? matching(schema.pattern) : 'x'))
    case 'integer':
    case 'number':
      return schema.minimum ?? 1
    case 'boolean':
      return true
    case 'array':
      return Array.from({ length: schema.minItems ?? 0 }, () => sample(schema.items ?? {}))
    case 'object':
      return Object.fromEntries((schema.required ?? []).map((name) => [name, sample(schema.properties?.[name] ?? {})]))
    default:
      return null
  }
}

function matching(pattern: string): string {
  const printable = fc
    .stringMatching(new RegExp(pattern), { size: '-1' })
    .filter((text) => /^[\x21-\x7e]{1,200}$/.test(text))
  return fc.sample(printable, { numRuns: 1, seed: 1 })[0] ?? ''
}

/** A body that is fine but for the value at one place. */
export function bodyWith(schema: Schema, [step, ...rest]: Step[], value: unknown): unknown {
  if (step === undefined) return value
  const inner = stepsInto(schema).find(([name]) => name === step)?.[1] ?? {}
  const placed = bodyWith(inner, rest, value)
  return step === 0 ? [placed] : { ...(sample(schema) as object), [step]: placed }
}

/** The path of a route, with an id of the right kind in every place. Nothing has it. */
export const pathOf = ({ path, params = {} }: Route): string =>
  path.replaceAll(/:(\w+)/g, (_, name) => `${params[name]}_00000000000000000000000000`)
