import { isDeepStrictEqual } from 'node:util'
import type { TObject, TSchema } from 'typebox'
import { type FieldFault, invalidFields } from '../kernel/errors.ts'
import { accepts } from './input/validate.ts'

type Json = Record<string, unknown>

/** Read-only fields that a body repeats, by path, such as `ip_restriction.ip_policies`. */
export type Repeated = ReadonlyMap<string, Field>
type Field = { readonly value: unknown; readonly schema: TSchema }

/** The resource that a body may be an edited copy of. `stable` has the fields that only a change alters. */
export type State = { readonly shown: object; readonly stable: object }

/** Splits a body into writable and repeated read-only fields: those that occur only in the response schema. */
export function splitReadOnly(body: TSchema, shape: TSchema, sent: unknown): { body: unknown; repeated: Repeated } {
  const repeated = new Map<string, Field>()
  return { body: split(sent, body, shape, '', repeated), repeated }
}

function split(sent: unknown, body: TSchema, shape: TSchema, prefix: string, repeated: Map<string, Field>): unknown {
  const [takes, shows] = [propertiesOf(body), propertiesOf(shape)]
  if (!isObject(sent) || !takes || !shows) return sent
  const rest = Object.entries(sent).flatMap(([name, value]): [string, unknown][] => {
    const [taken, schema] = [fieldIn(takes, name), fieldIn(shows, name)]
    if (taken && schema) return [[name, split(value, taken, schema, `${prefix}${name}.`, repeated)]]
    if (!schema) return [[name, value]]
    repeated.set(prefix + name, { value, schema })
    return []
  })
  return Object.fromEntries(rest)
}

const isObject = (value: unknown): value is Json => typeof value === 'object' && value !== null && !Array.isArray(value)

const fieldIn = (fields: Record<string, TSchema>, name: string): TSchema | undefined =>
  Object.hasOwn(fields, name) ? fields[name] : undefined

/** Accepts an object, or a union of an object and null. */
function propertiesOf(schema: TSchema): Record<string, TSchema> | undefined {
  const { properties, anyOf = [] } = schema as Partial<TObject> & { anyOf?: TSchema[] }
  return properties ?? anyOf.map(propertiesOf).find((found) => found !== undefined)
}

/**
 * The fields of a body that differ from the shown values. A body with read-only fields is an edited copy, so equal
 * fields are no change. In any other body, every field was sent on purpose.
 */
export function editedFields<Body>(sent: Body, repeated: Repeated, body: TSchema, shape: TSchema, shown: object): Body {
  if (repeated.size === 0 || !isObject(sent)) return sent
  const current = splitReadOnly(body, shape, shown).body as Json
  const edited = Object.entries(sent).filter(([name, value]) => !isDeepStrictEqual(value, current[name]))
  return Object.fromEntries(edited) as Body
}

/**
 * Refuses read-only fields that match neither the state before the change nor the state after it. Call it inside the
 * transaction of the change.
 */
export function refuseChanged(repeated: Repeated, states: readonly State[]): void {
  const changed = [...repeated].filter(([path, { value, schema }]) => {
    return !states.some((state) => accepts(schema, value) && isAsShown(state, path.split('.'), value))
  })
  const [first, ...others] = changed.map(
    ([field]): FieldFault => ({
      field,
      fault: 'is read-only and has another value; omit it or send the current value',
    }),
  )
  if (first) throw invalidFields([first, ...others])
}

/** Volatile fields are not compared: they may have changed since they were read. */
function isAsShown({ shown, stable }: State, path: readonly string[], value: unknown): boolean {
  const isStable = path[0] !== undefined && path[0] in stable
  return isStable ? repeats(at(stable, path), value) : at(shown, path) !== undefined
}

const at = (value: unknown, path: readonly string[]): unknown =>
  path.reduce((inside, step) => (isObject(inside) ? inside[step] : undefined), value)

/** Extra fields of objects are volatile and ignored. */
function repeats(stable: unknown, value: unknown): boolean {
  if (isObject(stable) && isObject(value))
    return Object.entries(stable).every(([name, part]) => repeats(part, value[name]))
  if (Array.isArray(stable) && Array.isArray(value))
    return stable.length === value.length && stable.every((part, index) => repeats(part, value[index]))
  return isDeepStrictEqual(stable, value)
}
