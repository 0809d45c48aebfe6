import { Ajv, type ErrorObject, type FuncKeywordDefinition, type ValidateFunction } from 'ajv'
import type { Static, TObject, TSchema } from 'typebox'
import { domainFault } from '../../kernel/edge/domains.ts'
import { type HostportRules, hostportFault } from '../../kernel/edge/hostport.ts'
import { type FieldFault, invalidFields } from '../../kernel/errors.ts'
import { parseCidr } from '../../kernel/ip/cidr.ts'
import { textFault } from '../../kernel/text.ts'
import { parseRfc3339 } from '../../kernel/time.ts'

// Strict on purpose: a value of the wrong type is an error. Nothing is converted, defaulted or dropped.
const options = {
  strict: true,
  allowUnionTypes: true,
  coerceTypes: false,
  useDefaults: false,
  verbose: true,
  // Compiling the meta-schema would dominate the first request. Strict mode rejects unknown keywords without it.
  validateSchema: false,
} as const
/** Keywords that only describe a field. */
const annotations = ['x-must', 'x-pem', 'x-default', 'x-documented', 'x-vendor', 'x-volatile', 'x-shownOnce', 'x-setBy']
const ajv = new Ajv(options)
/** Continues after the first fault. Slower, so it runs only on invalid values. */
const thorough = new Ajv({ ...options, allErrors: true })
for (const each of [ajv, thorough]) {
  each.addFormat('date-time', true)
  each.addFormat('uri', true)
  for (const keyword of annotations) each.addKeyword(keyword)
}

/**
 * Adds a keyword for rules about text that JSON Schema cannot express. `faultOf` completes the sentence '<field> …'.
 */
function addTextKeyword<Parameter>(
  keyword: string,
  faultOf: (text: string, parameter: Parameter) => string | undefined,
): void {
  const definition: FuncKeywordDefinition = {
    keyword,
    type: 'string',
    errors: true,
    compile: (parameter: Parameter) =>
      function check(text: string): boolean {
        const message = faultOf(text, parameter)
        ;(check as ValidateFunction).errors = message ? [{ keyword, message } as ErrorObject] : null
        return message === undefined
      },
  }
  for (const each of [ajv, thorough]) each.addKeyword(definition)
}
addTextKeyword('x-maxBytes', textFault)
addTextKeyword('x-cidr', (text) => parseCidr(text).fault)
addTextKeyword<HostportRules>('x-hostport', (text, rules) => hostportFault(text, rules))
addTextKeyword('x-domain', (text) => domainFault(text))
addTextKeyword('x-moment', (text) =>
  text === '' || parseRfc3339(text) !== undefined
    ? undefined
    : 'must be an RFC 3339 time, such as 2030-01-31T12:00:00Z',
)

export const accepts = <S extends TSchema>(schema: S, value: unknown): value is Static<S> => ajv.validate(schema, value)

export type Validator = (value: unknown) => void

/**
 * Throws a refusal that names the invalid fields. Compiles on first use: compiling all schemas would take a third of
 * the start time.
 */
export function validator(schema: TSchema, whole: 'body' | 'query'): Validator {
  let validate: ValidateFunction | undefined
  return (value) => {
    validate ??= ajv.compile(schema)
    if (validate(value)) return
    const [error] = validate.errors ?? []
    if (!error) throw new Error('validation failed without reporting an error')
    const toFault = (each: ErrorObject): FieldFault => ({ field: fieldOf(each) || whole, fault: faultOf(each) })
    const first = toFault(error)
    throw invalidFields([first, ...otherFaults(schema, value, first, toFault)])
  }
}

/** Listing all faults of a larger body would delay other requests, and no one reads that many. */
const maxValuesToSearch = 1_000

/** At most one fault for each field besides the first. */
function otherFaults(
  schema: TSchema,
  value: unknown,
  first: FieldFault,
  toFault: (error: ErrorObject) => FieldFault,
): FieldFault[] {
  if (hasMoreValues(value, maxValuesToSearch)) return []
  thorough.validate(schema, value)
  const byField = new Map([[first.field, first]])
  const alternatives = new Set<string>()
  for (const error of thorough.errors ?? []) {
    // A value that fails one alternative usually fails the others too; the first error is enough.
    const [alternative] = /^.*?\/anyOf/.exec(error.schemaPath) ?? []
    const isRepetition = error.keyword === 'propertyNames' || (alternative && alternatives.has(alternative))
    if (alternative) alternatives.add(alternative)
    const fault = toFault(error)
    if (!isRepetition && !byField.has(fault.field)) byField.set(fault.field, fault)
  }
  byField.delete(first.field)
  return [...byField.values()]
}

/**
 * Whether a value contains more values than this. Iterative, because a body may be nested more deeply than the stack.
 */
function hasMoreValues(value: unknown, than: number): boolean {
  const values = [value]
  for (let index = 0; index < values.length && values.length <= than; index++) {
    const each = values[index]
    if (typeof each === 'object' && each !== null) for (const inside of Object.values(each)) values.push(inside)
  }
  return values.length > than
}

/** `/ip_policy_ids/2` → `ip_policy_ids[2]` */
function fieldOf({ instancePath, keyword, params, propertyName }: ErrorObject): string {
  const inside =
    keyword === 'required'
      ? params.missingProperty
      : keyword === 'additionalProperties'
        ? params.additionalProperty
        : keyword === 'uniqueItems'
          ? Math.max(params.i, params.j)
          : // The property name itself is invalid.
            propertyName
  const steps = instancePath
    .split('/')
    .slice(1)
    .map((step) => step.replaceAll('~1', '/').replaceAll('~0', '~'))
  // A name, not part of a JSON pointer: apparent escapes belong to the name.
  if (inside !== undefined) steps.push(String(inside))
  return steps
    .map((step) => step || '""')
    .reduce((path, step) => (/^\d+$/.test(step) && path ? `${path}[${step}]` : path ? `${path}.${step}` : step), '')
}

const articles: Record<string, string> = {
  string: 'a string',
  boolean: 'true or false',
  integer: 'a whole number',
  number: 'a number',
  object: 'a JSON object',
  array: 'a list',
  null: 'null',
}

function faultOf({ keyword, params, message, parentSchema }: ErrorObject): string {
  switch (keyword) {
    case 'type':
      return `must be ${[params.type]
        .flat()
        .map((type) => articles[type] ?? type)
        .join(' or ')}`
    case 'required':
      return 'is required'
    case 'additionalProperties': {
      const known = Object.keys((parentSchema as TObject).properties)
      return known.length ? `is not a known field; expected one of ${known.join(', ')}` : 'is not a known field'
    }
    case 'enum':
      return `must be one of ${params.allowedValues.join(', ')}`
    case 'pattern':
      return (parentSchema as { 'x-must'?: string })['x-must'] ?? `must match ${params.pattern}`
    case 'minItems':
    case 'minProperties':
      return `must have at least ${params.limit} ${params.limit === 1 ? 'entry' : 'entries'}`
    case 'maxItems':
    case 'maxProperties':
      return `must have at most ${params.limit} entries`
    case 'uniqueItems':
      return `must not repeat entry ${Math.min(params.i, params.j)}`
    default:
      return message ?? 'is not valid'
  }
}

const parsers: Record<string, (text: string) => unknown> = {
  integer: (text) => (/^(0|[1-9]\d{0,14})$/.test(text) ? Number(text) : text),
  boolean: (text) => (text === 'true' ? true : text === 'false' ? false : text),
}

/**
 * URLs contain only text: converts numbers and booleans as the schema declares them, and leaves anything else for the
 * schema to reject.
 */
export function parseQuery(schema: TObject, raw: Record<string, unknown>): Record<string, unknown> {
  const parsed: Record<string, unknown> = Object.create(null)
  for (const [name, value] of Object.entries(raw)) {
    const parse = parsers[(schema.properties[name] as { type?: string } | undefined)?.type ?? '']
    parsed[name] = parse && typeof value === 'string' ? parse(value) : value
  }
  return parsed
}
