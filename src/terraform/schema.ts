// Converts fields to the schema messages of the protocol.
import type { Field, FieldType } from './fields.ts'

/** JSON form of a type without nested attributes. */
const simpleType = (type: FieldType): unknown => {
  if (type.kind === 'list' || type.kind === 'map') return [type.kind, simpleType(type.element)]
  return type.kind === 'json' ? 'string' : type.kind
}

function nestedType(type: FieldType): { nesting: number; attributes: object[] } | undefined {
  if (type.kind === 'object') return { nesting: 1, attributes: type.fields.map(toAttribute) }
  if (type.kind !== 'list' && type.kind !== 'map') return undefined
  const { element } = type
  const nesting = type.kind === 'list' ? 2 : 4
  return element.kind === 'object' ? { nesting, attributes: element.fields.map(toAttribute) } : undefined
}

/** Whether the plan may contain a value that the configuration omits. */
const isComputed = ({ isInput, isRequired, isNullable, isLocal, setBy, ...field }: Field): boolean =>
  !isInput || (!isRequired && !isLocal && ('default' in field || !isNullable || setBy !== undefined))

export function toAttribute(field: Field): object {
  const nested = nestedType(field.type)
  return {
    name: field.name,
    description: field.description,
    ...(nested ? { nested_type: nested } : { type: Buffer.from(JSON.stringify(simpleType(field.type))) }),
    required: field.isRequired,
    optional: field.isInput && !field.isRequired,
    computed: isComputed(field),
    sensitive: field.isWriteOnly || field.isShownOnce,
    write_only: field.isWriteOnly,
  }
}

export const toSchema = (fields: readonly Field[], description: string): object => ({
  version: 0,
  block: { attributes: fields.map(toAttribute), description },
})
