import type { TSchema } from 'typebox'
import { errorCatalog } from '../../kernel/errors.ts'
import type { Route } from '../route.ts'
import type { Json } from './json.ts'

export const errorSchema: Json = {
  type: 'object',
  required: ['error_code', 'status_code', 'msg', 'details'],
  properties: {
    error_code: { type: 'string', enum: Object.keys(errorCatalog) },
    status_code: { type: 'integer' },
    msg: { type: 'string', description: 'What happened and what to do, for people. Programs should use error_code.' },
    details: {
      type: 'object',
      required: ['operation_id'],
      properties: {
        operation_id: { type: 'string', description: 'The same as in the Operation-Id header.' },
        field: { type: 'string', description: 'The field or query parameter at fault, such as ip_policy_ids[2].' },
        errors: { type: 'string', description: 'The names of all fields at fault, if fields are.' },
      },
      additionalProperties: { type: 'string' },
    },
    errors: {
      type: 'array',
      description:
        'With ERR_INVALID_FIELD: every field at fault, up to 20. The first is also in msg and details.field.',
      items: {
        type: 'object',
        required: ['field', 'msg'],
        properties: {
          field: { type: 'string', description: 'Path of the field, such as ip_policy_ids[2].' },
          msg: { type: 'string' },
        },
      },
    },
    doc_url: {
      type: 'string',
      format: 'uri',
      description: 'Explains the error code. Omitted when the installation serves no documentation.',
    },
  },
}

type Direction = 'request' | 'response'

/**
 * Converts a schema for the document; one with a title becomes a component. Response schemas are open, so that
 * validating clients survive new fields. Request schemas stay closed, because unknown fields are refused.
 */
export function hoist(schema: TSchema, schemas: Json, direction: Direction): unknown {
  const {
    title,
    'x-default': byDefault,
    'x-documented': documented,
    'x-vendor': _,
    ...shape
  } = Object.fromEntries(Object.entries(schema).map(([key, value]) => [key, hoistWithin(value, schemas, direction)]))
  if (direction === 'response' && shape.additionalProperties === false) delete shape.additionalProperties
  if (direction === 'request') Object.assign(shape, documented, describedDefault(shape, byDefault))
  if (typeof title !== 'string') return shape
  const name = direction === 'request' && isOpen(schemas[title]) ? `${title}Sent` : title
  schemas[name] = shape
  return { $ref: `#/components/schemas/${name}` }
}

/**
 * Avoids the keyword `default`: some generators then mark the field as required, others send it with every PATCH. The
 * command line reads the extension.
 */
const describedDefault = ({ description }: Json, byDefault: unknown): Json | undefined =>
  byDefault === undefined
    ? undefined
    : {
        description: [
          description,
          `Default: ${typeof byDefault === 'string' ? byDefault || 'empty' : JSON.stringify(byDefault)}.`,
        ]
          .filter(Boolean)
          .join(' '),
        'x-default': byDefault,
      }

/**
 * The body schema of an operation. PATCH keeps omitted fields, so they have no defaults; objects that it replaces as a
 * whole do.
 */
export function bodySchema({ method, body }: Route): TSchema {
  if (method !== 'PATCH') return body
  const fields = Object.entries<Json>(body.properties).map(([name, { 'x-default': _, ...field }]) => [name, field])
  return { ...body, properties: Object.fromEntries(fields) }
}

const isOpen = (component: unknown): boolean =>
  component !== undefined && (component as Json).type === 'object' && !('additionalProperties' in (component as Json))

function hoistWithin(value: unknown, schemas: Json, direction: Direction): unknown {
  if (Array.isArray(value)) return value.map((item) => hoistWithin(item, schemas, direction))
  if (value === null || typeof value !== 'object') return value
  return hoist(value as TSchema, schemas, direction)
}

export const pascal = (name: string): string =>
  name.replaceAll(/(?:^|_)(\w)/g, (_, first: string) => first.toUpperCase())

const singular = (name: string): string => name.replace(/ies$/, 'y').replace(/s$/, '')

/** Names bodies after operation and resource: ApiKeyCreate, IpRestrictionModuleReplace, IpPolicyReplaceRules. */
export function nameOfBody({ operation, response }: Route): string {
  const [group = '', ...rest] = operation.split('.')
  const verb = rest.at(-1) ?? ''
  const isPlain = ['create', 'update', 'replace', 'rotate'].includes(verb)
  const subject = isPlain ? String(response?.title).replace(/Result$/, '') : pascal(singular(group))
  const name = subject + pascal(verb)
  return name === response?.title ? `${name}Request` : name
}
