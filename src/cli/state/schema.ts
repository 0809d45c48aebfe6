import { deref, type Schema } from '../document.ts'
import {
  createSchemas,
  formVersion,
  type Kind,
  kindNames,
  kinds,
  referenceOf,
  ruleSchema,
  type Thing,
} from './kinds.ts'

type Written = Record<string, unknown>

/** The format of state files as a JSON Schema, for completion and validation in editors. */
export const stateSchema = (): Written => ({
  $schema: 'https://json-schema.org/draft/2020-12/schema',
  title: 'Gatehouse state file',
  type: 'object',
  required: ['gatehouse'],
  additionalProperties: false,
  properties: {
    gatehouse: { const: formVersion, description: 'Version of the file format.' },
    ...Object.fromEntries(kindNames.map((kind) => [kind, sectionSchema(kind)])),
  },
})

const sectionSchema = (kind: Kind): Written => ({
  type: ['object', 'null'],
  description: `Each ${kinds[kind].called} under a name that is local to the file. Empty: there should be none.`,
  additionalProperties: thingSchema(kind),
})

function thingSchema(kind: Thing['kind']): Written {
  const { properties, ...group } = groupSchema(createSchemas[kind])
  return {
    ...group,
    // A new one needs what the service needs to create it, and an empty entry is `name:` alone.
    ...(group.required ? {} : { type: ['object', 'null'] }),
    properties: {
      id: {
        type: 'string',
        description:
          'Id of the resource. Needed to rename it: without an id, a changed description or hostport makes a new resource.',
      },
      ...(properties as Written),
      ...(kind === 'ip_policies' && { rules: { type: ['array', 'null'], items: ruleForms() } }),
      ...(kind === 'https_edges' && { routes: { type: ['array', 'null'], items: thingSchema('routes') } }),
    },
  }
}

/** `allow CIDR`, or a map with more fields. */
function ruleForms(): Written {
  const { action: _, cidr, ...others } = groupSchema(ruleSchema).properties as Record<string, Written>
  const form = (action: string): Written => ({
    type: 'object',
    required: [action],
    additionalProperties: false,
    properties: { [action]: cidr, ...others },
  })
  return { anyOf: [{ type: 'string', pattern: '^\\s*(allow|deny)\\s+\\S+\\s*$' }, form('allow'), form('deny')] }
}

function groupSchema(schema: Schema): Written {
  const fields = Object.entries(schema.properties ?? {}).map(([name, referred]) => {
    const inner = deref<Schema>(referred)
    return { name, inner, reference: referenceOf(name, inner) }
  })
  const shownOf = (name: string) => fields.find((field) => field.name === name)?.reference?.shown ?? name
  const required = (schema.required ?? []).filter((name) => schema.properties?.[name]).map(shownOf)
  return {
    type: schema.type ?? 'object',
    ...(schema.description && { description: schema.description }),
    ...(required.length && { required }),
    additionalProperties: false,
    properties: Object.fromEntries(
      fields.map(({ name, inner, reference }) => [
        reference?.shown ?? name,
        reference ? referenceSchema(inner, reference.form) : valueSchema(inner),
      ]),
    ),
  }
}

/** Names from the file, or ids. */
function referenceSchema(schema: Schema, form: 'one' | 'list' | 'map'): Written {
  const { description, minItems, maxItems, additionalProperties } = schema as Written
  const told = description ? { description } : {}
  if (form === 'list') return { ...told, type: 'array', items: { type: 'string' }, minItems, maxItems }
  if (form === 'map') return { ...told, type: 'object', additionalProperties }
  return { ...told, type: ['string', 'null'] }
}

/** The API's schema without references into openapi.json and without service-only keywords. */
function valueSchema(referred: Schema): Written {
  const schema = deref<Schema>(referred)
  if (schema.properties) return groupSchema(schema)
  const { items, anyOf, additionalProperties, ...rest } = schema
  const known = Object.entries(rest).filter(([name]) => !name.startsWith('x-'))
  return {
    ...Object.fromEntries(known),
    ...(schema['x-default'] !== undefined && { default: schema['x-default'] }),
    ...(items && { items: valueSchema(items) }),
    ...(anyOf && { anyOf: anyOf.map(valueSchema) }),
    ...(additionalProperties !== undefined && {
      additionalProperties:
        typeof additionalProperties === 'object' ? valueSchema(additionalProperties) : additionalProperties,
    }),
  }
}
