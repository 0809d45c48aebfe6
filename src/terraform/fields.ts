// Maps fields of the API to Terraform attributes, based on the schemas in openapi.json.
import { deref, type Schema, typesOf } from '../cli/document.ts'

export type FieldType =
  | { readonly kind: 'string' | 'bool' | 'number' }
  /** JSON text, for shapes that Terraform cannot type. */
  | { readonly kind: 'json' }
  | { readonly kind: 'list' | 'map'; readonly element: FieldType }
  | { readonly kind: 'object'; readonly fields: readonly Field[] }

export type Field = {
  readonly name: string
  readonly type: FieldType
  readonly description: string
  /** The request schema, if requests accept the field; it defines how values are compared. */
  readonly schema: Schema
  /** Whether a configuration can set it; otherwise the service does. */
  readonly isInput: boolean
  readonly isRequired: boolean
  /** Changing it requires a new resource. */
  readonly isFixed: boolean
  /** `""` and null both mean unset. */
  readonly isNullable: boolean
  /** The service's default for an omitted field, unless it chooses the value. */
  readonly default?: unknown
  /** If this field is set, the service chooses the value. */
  readonly setBy?: string
  readonly isWriteOnly: boolean
  readonly isShownOnce: boolean
  /** Neither requests nor responses contain it. */
  readonly isLocal: boolean
  /** Name in responses, which contain references instead of ids: `ip_policies` for `ip_policy_ids`. */
  readonly shown: string
  readonly form: 'same' | 'reference' | 'references'
  /** Responses omit it if unset. A response without any other field is from an older service. */
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

/** Resolves references and removes the null alternative. */
function bare(schema: Schema): Schema {
  const whole = deref<Schema>(schema)
  const others = (whole.anyOf ?? []).filter(({ type }) => type !== 'null')
  return others[0] && others.length === 1 ? { ...whole, anyOf: undefined, ...deref<Schema>(others[0]) } : whole
}

export const isNullable = (schema: Schema): boolean => typesOf(deref<Schema>(schema)).includes('null')

/** `toFields` converts the fields of an object. */
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
 * Fields of a response. `isLasting`: of a resource, which stores them. Data sources also include volatile fields, but
 * no secrets that are shown once.
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

/** Fields of a request, as responses show them. */
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

/** Shape of a list's objects, or of the object itself. */
const innerShape = (schema: Schema): Shape => (schema.items ? bare(schema.items) : schema)

function placeIn({ properties = {} }: Shape, name: string): Pick<Field, 'shown' | 'form'> {
  if (name in properties) return { shown: name, form: 'same' }
  const one = name.replace(/_id$/, '')
  if (one in properties) return { shown: one, form: 'reference' }
  const several = name.replace(/y_ids$/, 'ies').replace(/_ids$/, 's')
  if (several in properties) return { shown: several, form: 'references' }
  throw new Error(`openapi.json: no response shows ${name}, and it is not marked writeOnly`)
}

/** A path or query parameter as an argument. */
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

/** Terraform does not store write-only values, so a version number beside each indicates a change. */
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
