// Fields of the API as attributes of Terraform, from the schemas of openapi.json.
import { deref, type Schema, typesOf } from '../cli/document.ts'

export type FieldType =
  | { readonly kind: 'string' | 'bool' | 'number' }
  /** What Terraform has no type for, as a text of JSON. */
  | { readonly kind: 'json' }
  | { readonly kind: 'list' | 'map'; readonly element: FieldType }
  | { readonly kind: 'object'; readonly fields: readonly Field[] }

export type Field = {
  readonly name: string
  readonly type: FieldType
  readonly description: string
  /** The schema in the request, if it takes the field: it says how texts are compared. */
  readonly schema: Schema
  /** Whether a configuration can set it. Otherwise the service does. */
  readonly isInput: boolean
  readonly isRequired: boolean
  /** A new resource is needed to change it. */
  readonly isFixed: boolean
  /** `""` and null mean that it is not set. */
  readonly isNullable: boolean
  /** What the service makes of an omitted field, unless it chooses the value. */
  readonly default?: unknown
  /** The field that makes the service choose this one. */
  readonly setBy?: string
  readonly isWriteOnly: boolean
  readonly isShownOnce: boolean
  /** No body has it, sent or answered. */
  readonly isLocal: boolean
  /** The field of the response, which has references in place of ids: `ip_policies` for `ip_policy_ids`. */
  readonly shown: string
  readonly form: 'same' | 'reference' | 'references'
  /** Omitted from responses when it is not set. Otherwise a response without it is of an older service. */
  readonly isOmitted: boolean
}

const plain = {
  isInput: false,
  isRequired: false,
  isFixed: false,
  isNullable: false,
  isWriteOnly: false,
  isShownOnce: false,
  isLocal: false,
  form: 'same',
  isOmitted: true,
} as const

/** A schema without the alternative null, and without its reference. */
function bare(schema: Schema): Schema {
  const whole = deref<Schema>(schema)
  const others = (whole.anyOf ?? []).filter(({ type }) => type !== 'null')
  return others[0] && others.length === 1 ? { ...whole, anyOf: undefined, ...deref<Schema>(others[0]) } : whole
}

export const isNullable = (schema: Schema): boolean => typesOf(deref<Schema>(schema)).includes('null')

/** `toFields` makes the fields of an object. */
function typeOf(schema: Schema, toFields: (schema: Schema) => Field[]): FieldType {
  const shape = bare(schema)
  const kinds = typesOf(shape).filter((kind) => kind !== 'null')
  if (kinds.length !== 1) return { kind: 'json' }
  switch (kinds[0]) {
    case 'string':
      return { kind: 'string' }
    case 'boolean':
      return { kind: 'bool' }
    case 'integer':
    case 'number':
      return { kind: 'number' }
    case 'array':
      return { kind: 'list', element: typeOf(shape.items ?? {}, toFields) }
    default:
      if (shape.properties) return { kind: 'object', fields: toFields(shape) }
      return typeof shape.additionalProperties === 'object'
        ? { kind: 'map', element: typeOf(shape.additionalProperties, toFields) }
        : { kind: 'json' }
  }
}

const describe = (name: string, schema: Schema): Pick<Field, 'name' | 'shown' | 'description' | 'schema'> => ({
  name,
  shown: name,
  description: schema.description ?? bare(schema).description ?? '',
  schema: { ...bare(schema), ...deref<Schema>(schema) },
})

export type Shape = { readonly properties?: Record<string, Schema>; readonly required?: readonly string[] }

/**
 * The fields of a response. `isLasting`: those that a resource keeps. Others read it once more, and see what changes by
 * itself, but no secret that is shown once.
 */
export function outputFields(
  { properties = {}, required = [] }: Shape,
  { isLasting }: { isLasting: boolean },
): Field[] {
  return Object.entries(properties).flatMap(([name, schema]) => {
    const { 'x-volatile': isVolatile, 'x-shownOnce': isShownOnce = false } = { ...bare(schema), ...deref(schema) }
    if (isLasting ? isVolatile : isShownOnce) return []
    const type = typeOf(schema, (inner) => outputFields(inner, { isLasting }))
    return [{ ...plain, ...describe(name, schema), type, isShownOnce, isOmitted: !required.includes(name) }]
  })
}

/** The fields of a request, as the response shows them. */
export function inputFields(request: Shape, response: Shape): Field[] {
  return Object.entries(request.properties ?? {}).map(([name, schema]) => {
    const { 'x-default': byDefault, 'x-setBy': setBy, writeOnly = false } = { ...bare(schema), ...deref(schema) }
    const place = writeOnly ? { shown: name, form: 'same' as const } : placeIn(response, name)
    const shownSchema = bare(response.properties?.[place.shown] ?? {})
    return {
      ...plain,
      ...describe(name, schema),
      ...place,
      type: typeOf(schema, (inner) => inputFields(inner, innerShape(shownSchema))),
      isInput: true,
      isRequired: request.required?.includes(name) ?? false,
      isNullable: isNullable(schema),
      ...(byDefault !== undefined && { default: byDefault }),
      ...(setBy && { setBy }),
      isWriteOnly: writeOnly,
      isOmitted: !response.required?.includes(place.shown),
    }
  })
}

/** The shape of the objects in a list, or of the object itself. */
const innerShape = (schema: Schema): Shape => (schema.items ? bare(schema.items) : schema)

function placeIn({ properties = {} }: Shape, name: string): Pick<Field, 'shown' | 'form'> {
  if (name in properties) return { shown: name, form: 'same' }
  const one = name.replace(/_id$/, '')
  if (one in properties) return { shown: one, form: 'reference' }
  const several = name.replace(/y_ids$/, 'ies').replace(/_ids$/, 's')
  if (several in properties) return { shown: several, form: 'references' }
  throw new Error(`openapi.json: no response shows ${name}, and it is not marked writeOnly`)
}

/** An argument that is part of a path, or of a query. */
export const argumentField = (name: string, schema: Schema, isRequired: boolean): Field => ({
  ...plain,
  ...describe(name, schema),
  type: typeOf(schema, () => []),
  isInput: true,
  isRequired,
  isFixed: true,
  isNullable: !isRequired,
  isLocal: true,
})

/** Terraform keeps no write-only value, so it cannot see that one has changed. A number beside it says so. */
export const versionOf = ({ name }: Field): Field => ({
  ...plain,
  name: `${name}_version`,
  shown: `${name}_version`,
  description: `Change it to send ${name} again, which Terraform does not store.`,
  schema: {},
  type: { kind: 'number' },
  isInput: true,
  isNullable: true,
  isLocal: true,
})
