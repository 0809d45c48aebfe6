// Values of the API as values of Terraform's state, and back.
import { isDeepStrictEqual } from 'node:util'
import { deref, type Schema } from '../cli/document.ts'
import { Failure } from '../cli/exits.ts'
import { canonical } from '../cli/values/canonical.ts'
import type { Field, FieldType } from './fields.ts'
import { isObject, unknownValue, type Value } from './message_pack.ts'

export type State = { readonly [name: string]: Value }
export type Json = { readonly [name: string]: unknown }

/** Line breaks in PEM, and text around it, mean nothing. */
const pemBlocks = (text: string): string =>
  [...text.matchAll(/-----BEGIN [A-Z ]+-----[^-]+/g)].map(([block]) => block.replaceAll(/\s/g, '')).join('\n')

/** Whether two values mean the same to the service, which may change their spelling. */
export function meansSame(schema: Schema, one: Value, other: Value): boolean {
  if (typeof one === 'string' && typeof other === 'string')
    return schema['x-pem']
      ? pemBlocks(one) === pemBlocks(other)
      : one === other || canonical(schema, one) === canonical(schema, other)
  if (Array.isArray(one) && Array.isArray(other)) {
    const inner = deref<Schema>(schema.items ?? {})
    return one.length === other.length && one.every((each, index) => meansSame(inner, each, other[index]))
  }
  return isDeepStrictEqual(one, other)
}

/** Keeps the text of the configuration or state as long as it means the same to the service. */
function keepSpelling(field: Field, before: Value, now: Value): Value {
  const isUnset = field.isNullable && before === '' && now === null
  return isUnset || meansSame(field.schema, before, now) ? before : now
}

const wrongType = (name: string, value: unknown, type: string): Failure =>
  new Failure('unreachable', `The service answered with a ${name} that is not a ${type}: ${JSON.stringify(value)}.`, [
    'Its version may be newer or older than that of this provider.',
  ])

function toValue(name: string, type: FieldType, answered: unknown, before: Value): Value {
  if (answered === null || answered === undefined) return null
  if (type.kind === 'json') return JSON.stringify(answered)
  if (type.kind === 'list') {
    if (!Array.isArray(answered)) throw wrongType(name, answered, 'list')
    const old = Array.isArray(before) ? before : []
    return answered.map((each, index) => toValue(name, type.element, each, old[index] ?? null))
  }
  if (type.kind === 'object' || type.kind === 'map') {
    if (typeof answered !== 'object' || Array.isArray(answered)) throw wrongType(name, answered, type.kind)
    if (type.kind === 'object') return toState(type.fields, answered as Json, isObject(before) ? before : {})
    return Object.fromEntries(
      Object.entries(answered).map(([key, each]) => [key, toValue(name, type.element, each, null)]),
    )
  }
  const expected = type.kind === 'bool' ? 'boolean' : type.kind
  if (typeof answered !== expected) throw wrongType(name, answered, expected)
  return answered as Value
}

const idOf = (reference: unknown): unknown => (reference as { id?: unknown } | null)?.id

function answeredValue({ shown, form }: Field, answer: Json): unknown {
  const value = answer[shown]
  if (form === 'same' || value === undefined) return value
  if (form === 'reference') return value === null ? null : idOf(value)
  return Array.isArray(value) ? value.map(idOf) : value
}

/** Replaces values known only after apply with null. */
export function known(value: Value): Value {
  if (value === unknownValue) return null
  if (Array.isArray(value)) return value.map(known)
  return isObject(value) ? knownState(value) : value
}
export const knownState = (state: State): State =>
  Object.fromEntries(Object.entries(state).map(([name, each]) => [name, known(each)]))

/**
 * The state after a response. `before`: the planned state, or the current one. Ignores fields that this version does
 * not know, and keeps those that an older service lacks.
 */
export const toState = (fields: readonly Field[], answer: Json, before: State): State =>
  Object.fromEntries(
    fields.map((field): [string, Value] => {
      const { name, type, isWriteOnly, isShownOnce, isLocal, isOmitted } = field
      const old = before[name] ?? null
      if (isWriteOnly) return [name, null]
      const answered = answeredValue(field, answer)
      if (isLocal || (isShownOnce && !answered)) return [name, known(old)]
      if (answered === undefined) return [name, isOmitted ? keepSpelling(field, old, null) : known(old)]
      return [name, keepSpelling(field, old, toValue(name, type, answered, old))]
    }),
  )

/** Adapts a stored state to the current fields: another version may have had more or fewer. */
export const upgraded = (fields: readonly Field[], stored: Json): State =>
  Object.fromEntries(fields.map(({ name, type }) => [name, upgradedValue(type, stored[name])]))

function upgradedValue(type: FieldType, stored: unknown): Value {
  if (stored === undefined || stored === null) return null
  if (type.kind === 'object') return upgraded(type.fields, stored as Json)
  if (type.kind === 'list') return (stored as unknown[]).map((each) => upgradedValue(type.element, each))
  return stored as Value
}

/** The value for a request, without unset and unknown parts. */
export function toSent(value: Value): unknown {
  if (Array.isArray(value)) return value.map(toSent)
  if (!isObject(value)) return value
  const set = Object.entries(value).filter(([, each]) => each !== null && each !== unknownValue)
  return Object.fromEntries(set.map(([name, each]) => [name, toSent(each)]))
}
