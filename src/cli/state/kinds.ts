import { isDeepStrictEqual } from 'node:util'
import { deref, paths, type Schema, typesOf } from '../document.ts'
import { canonical } from '../values/canonical.ts'

export const formVersion = 1

export type Json = Record<string, unknown>

/** The kinds in a state file. A kind comes after those that it refers to. */
export const kinds = {
  ip_policies: { path: '/ip_policies', called: 'IP policy' },
  backends: { path: '/backends/static', called: 'backend' },
  http_response_backends: { path: '/backends/http_response', called: 'HTTP response backend' },
  weighted_backends: { path: '/backends/weighted', called: 'weighted backend' },
  failover_backends: { path: '/backends/failover', called: 'failover backend' },
  reserved_domains: { path: '/reserved_domains', called: 'reserved domain' },
  ip_restrictions: { path: '/ip_restrictions', called: 'IP restriction' },
  tcp_edges: { path: '/edges/tcp', called: 'TCP edge' },
  https_edges: { path: '/edges/https', called: 'HTTPS edge' },
} as const
export type Kind = keyof typeof kinds
export const kindNames = Object.keys(kinds) as Kind[]
export const routesPath = '/edges/https/{edge_id}/routes'
export const rulesPath = '/ip_policies/{id}/rules'

export type Rule = {
  action: string
  cidr: string
  description?: string
  metadata?: string
  expires_at?: string
}
/** A resource from the file or the account. References are ids, or marks for resources that do not exist yet. */
export type Thing = {
  readonly kind: Kind | 'routes'
  readonly name: string
  readonly id?: string
  /** In the API's form, without ids, times and fields with default values. */
  readonly fields: Json
  readonly rules?: readonly Rule[]
  readonly routes?: readonly Thing[]
}

/** Omits what the path already contains: a body may repeat it. */
function bodySchema(path: string, method: string): Schema {
  const schema = deref<Schema>(paths()[path]?.[method]?.requestBody?.content['application/json']?.schema ?? {})
  const own = Object.entries(schema.properties ?? {}).filter(([name]) => !path.includes(`{${name}}`))
  return { ...schema, properties: Object.fromEntries(own) }
}

/** Fields of the creation request, which are all that a file can contain. */
export const createSchemas: Record<Thing['kind'], Schema> = {
  ...(Object.fromEntries(kindNames.map((kind) => [kind, bodySchema(kinds[kind].path, 'post')])) as Record<
    Kind,
    Schema
  >),
  routes: bodySchema(routesPath, 'post'),
}
export const ruleSchema: Schema = deref(bodySchema(rulesPath, 'put').properties?.rules?.items ?? {})

const kindOfPrefix: Record<string, Kind> = {
  ipp: 'ip_policies',
  bkdst: 'backends',
  bkdwd: 'weighted_backends',
  bkdfo: 'failover_backends',
  bkdhr: 'http_response_backends',
}
const kindsIn = ({ pattern = '' }: Schema = {}): Kind[] =>
  [...pattern.matchAll(/\^([a-z]+)_/g)].flatMap(([, prefix = '']) => kindOfPrefix[prefix] ?? [])
/** Excludes certificates, for which a file would need private keys. The file refers to them by id. */
const isOutside = ({ pattern, anyOf = [] }: Schema): boolean =>
  pattern?.startsWith('^cert_') || anyOf.some((each) => isOutside(deref<Schema>(each)))
export const isReferableId = (text: string): boolean =>
  new RegExp(`^(${Object.keys(kindOfPrefix).join('|')}|cert)_[0-9a-z]{26}$`).test(text)

/**
 * What a field refers to, and the name that shows it. In a map, the keys are references. Without kinds: a resource
 * outside the file.
 */
export type Reference = { shown: string; kinds: readonly Kind[]; form: 'one' | 'list' | 'map' }

/** The body's `ip_policy_ids` is shown as `ip_policies`; a group's `backends` keeps its name. */
export function referenceOf(name: string, schema: Schema): Reference | undefined {
  const listed = kindsIn(deref<Schema>(schema.items ?? {}))
  if (listed.length) return { shown: name.replace(/y_ids$/, 'ies').replace(/_ids$/, 's'), kinds: listed, form: 'list' }
  const keyed = kindsIn(schema.propertyNames)
  if (keyed.length) return { shown: name, kinds: keyed, form: 'map' }
  const named = name.endsWith('_id') ? kindsIn(schema) : []
  return named.length || (name.endsWith('_id') && isOutside(schema))
    ? { shown: name.replace(/_id$/, ''), kinds: named, form: 'one' }
    : undefined
}

/** A field's default; undefined if unknown. */
function defaultOf(schema: Schema): unknown {
  if (schema['x-default'] !== undefined) return schema['x-default']
  return typesOf(schema).includes('null') ? null : undefined
}
function isDefault(schema: Schema, value: unknown): boolean {
  if (value === null || (value === '' && typesOf(schema).includes('null'))) return true
  const normal = defaultOf(schema)
  const comparable = schema.properties && normal ? normalize(schema, normal as Json) : normal
  return isDeepStrictEqual(value, comparable)
}

function normalValue(schema: Schema, value: unknown): unknown {
  if (typeof value === 'string') return canonical(schema, value)
  if (Array.isArray(value)) return value.map((each) => normalValue(deref<Schema>(schema.items ?? {}), each))
  if (schema.properties && value && typeof value === 'object') return normalize(schema, value as Json)
  return value
}

const propertiesOf = (schema: Schema) =>
  Object.entries(schema.properties ?? {}).map(([name, referred]) => {
    const inner = deref<Schema>(referred)
    return { name, inner, shown: referenceOf(name, inner)?.shown ?? name }
  })

/** Whether a field can be changed to the file's value. One that is missing from the file needs a known default. */
export function canBeSet(kind: Thing['kind'], shown: string, wanted: unknown): boolean {
  const path = kind === 'routes' ? routesPath : kinds[kind].path
  const find = (schema: Schema) => propertiesOf(schema).find((property) => property.shown === shown)
  if (!find(bodySchema(`${path}/{id}`, 'patch'))) return false
  if (wanted !== undefined) return true
  // PATCH has no defaults: a field that was removed from the file gets the default of a new resource.
  const created = find(createSchemas[kind])
  // An older file must not remove the certificate from a domain.
  return created !== undefined && !isOutside(created.inner) && defaultOf(created.inner) !== undefined
}

/** Fields in the API's form: references as ids, no defaults, canonical spelling. */
export function normalize(schema: Schema, shown: Json): Json {
  return Object.fromEntries(
    Object.entries(schema.properties ?? {}).flatMap(([name, referred]): [string, unknown][] => {
      const inner = deref<Schema>(referred)
      const reference = referenceOf(name, inner)
      if (reference) {
        const value = shown[reference.shown]
        return value === undefined
          ? []
          : [[reference.shown, reference.form === 'list' ? (value as unknown[]).map(idOf) : idOf(value)]]
      }
      const normal = normalValue(inner, shown[name])
      const isLeftOut = normal === undefined || (!schema.required?.includes(name) && isDefault(inner, normal))
      return isLeftOut ? [] : [[name, normal]]
    }),
  )
}
const idOf = (value: unknown): unknown => (value && typeof value === 'object' && 'id' in value ? value.id : value)

/** The request that changes the present fields to the wanted ones. */
export function toBody(schema: Schema, wanted: Json, names: readonly string[]): Json {
  return Object.fromEntries(
    propertiesOf(schema).flatMap(({ name, inner, shown }): [string, unknown][] => {
      if (!names.includes(shown)) return []
      const value = shown === name ? (wanted[shown] ?? defaultOf(inner)) : wanted[shown]
      if (value === undefined) return []
      const isGroup = inner.properties && value && typeof value === 'object'
      return [[name, isGroup ? toBody(inner, value as Json, Object.keys(value)) : value]]
    }),
  )
}
