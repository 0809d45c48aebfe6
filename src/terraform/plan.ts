// Computes a plan: a pure function of configuration and state.
import { isDeepStrictEqual } from 'node:util'
import type { Field } from './fields.ts'
import { isObject, unknownValue, type Value } from './message_pack.ts'
import { meansSame, type State } from './values.ts'

export type Plan = { readonly planned: State; readonly replacing: readonly string[] }

/** Purely informational; no other field depends on them. */
const annotations = ['description', 'metadata']
/** Constant for the lifetime of a resource. */
const lasting = ['id', 'uri', 'created_at']

export const isAnnotation = ({ name }: Field): boolean => annotations.includes(name)

/** `prior`: undefined if the resource does not exist yet. */
export function plan(fields: readonly Field[], config: State, prior: State | undefined): Plan {
  const inputs = fields.filter(({ isInput }) => isInput)
  const planned: Record<string, Value> = { ...plannedObject(inputs, config, prior) }
  const changed = inputs.filter(({ name }) => !isDeepStrictEqual(planned[name], prior?.[name] ?? null))
  for (const field of fields.filter(({ isInput }) => !isInput)) {
    const old = prior?.[field.name]
    const stays = lasting.includes(field.name) || field.isShownOnce || changed.every(isAnnotation)
    planned[field.name] = prior && stays ? (old ?? null) : unknownValue
  }
  return { planned, replacing: prior ? changed.filter(({ isFixed }) => isFixed).map(({ name }) => name) : [] }
}

/** Two steps, because some fields depend on whether others change. */
function plannedObject(fields: readonly Field[], config: State, prior: State | undefined): State {
  const isOpen = (field: Field): boolean => !isSet(field, config) && field.isNullable && 'default' in field
  const clear = fields
    .filter((field) => !isOpen(field))
    .map((field): [string, Value] => [field.name, plannedValue(field, config, prior)])
  const isSame = clear.every(([name, value]) => isDeepStrictEqual(value, prior?.[name]))
  return Object.fromEntries([
    ...clear,
    ...fields.filter(isOpen).map((field): [string, Value] => {
      // Null or the default, depending on other fields: only the service knows.
      const old = prior?.[field.name]
      const isOwnChoice = old === null || isDeepStrictEqual(old, field.default)
      return [field.name, prior && isSame && isOwnChoice ? (old ?? null) : unknownValue]
    }),
  ])
}

const isSet = ({ name }: Field, config: State): boolean => (config[name] ?? null) !== null

function plannedValue(field: Field, config: State, prior: State | undefined): Value {
  if (field.isWriteOnly) return null
  const old = prior?.[field.name] ?? null
  const wanted = config[field.name] ?? null
  if (wanted === null) return omittedValue(field, config, prior && old)
  return configuredValue(field, wanted, old)
}

function omittedValue(field: Field, config: State, old: Value | undefined): Value {
  const isChosen = field.setBy !== undefined && (config[field.setBy] ?? null) !== null
  if (isChosen) return old ?? unknownValue
  if ('default' in field) return withDefaults(field, field.default as Value)
  if (field.isNullable) return null
  return old === undefined ? unknownValue : old
}

/** The default of an object may omit fields that have defaults of their own. */
const withDefaults = ({ type }: Field, value: Value): Value =>
  type.kind === 'object' && isObject(value) ? plannedObject(type.fields, value, undefined) : value

function configuredValue(field: Field, wanted: Value, old: Value): Value {
  const { type, schema } = field
  if (type.kind === 'object' && isObject(wanted))
    return plannedObject(type.fields, wanted, isObject(old) ? old : undefined)
  if (type.kind === 'list' && type.element.kind === 'object' && Array.isArray(wanted)) {
    const { fields } = type.element
    const olds: readonly Value[] = Array.isArray(old) ? old : []
    return wanted.map((each, index) => {
      const before = olds[index]
      return isObject(each) ? plannedObject(fields, each, isObject(before) ? before : undefined) : each
    })
  }
  // Terraform permits planning the old value for an equivalent one, which avoids a change.
  return old !== null && meansSame(schema, wanted, old) ? old : wanted
}
