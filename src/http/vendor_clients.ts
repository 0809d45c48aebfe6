import type { IncomingMessage } from 'node:http'
import type { TObject, TSchema } from 'typebox'
import { accepts } from './input/validate.ts'
import type { Route } from './route.ts'

/**
 * Detects client libraries written for the vendor's API: they send the version in one of the operator's alias headers
 * instead of ours. Some of them send an empty value for every omitted argument.
 */
export function isVendorClient(headers: NodeJS.Dict<string[]>, versionHeaders: readonly string[]): boolean {
  const [own = '', ...aliases] = versionHeaders
  return headers[own] === undefined && aliases.some((alias) => headers[alias] !== undefined)
}

/** Drops fields that are empty only because the argument was omitted. */
export type DropDefaults = (body: unknown) => unknown

type EmptyKind = 'text' | 'list' | 'map'
const empty: Record<EmptyKind, unknown> = { text: '', list: [], map: {} }

function emptyKind(value: unknown): EmptyKind | undefined {
  if (value === '') return 'text'
  if (typeof value !== 'object' || value === null || Object.keys(value).length > 0) return undefined
  return Array.isArray(value) ? 'list' : 'map'
}

function emptyKindOf({ type }: TSchema & { type?: string | string[] }): EmptyKind | undefined {
  if ([type].flat().includes('string')) return 'text'
  return type === 'array' ? 'list' : type === 'object' ? 'map' : undefined
}

/** In a PATCH, drops known fields too. On create, an empty value equals the default or is an error to report. */
export function dropDefaults(route: Route): DropDefaults {
  if (route.method !== 'PATCH' && route.method !== 'POST') return (sent) => sent
  let dropped: Map<string, EmptyKind> | undefined
  return (sent) => {
    if (typeof sent !== 'object' || sent === null || Array.isArray(sent)) return sent
    dropped ??= route.method === 'PATCH' ? defaultsOf(route) : new Map()
    const isDefault = ([name, value]: [string, unknown]) => {
      const kind = emptyKind(value)
      const isKnown = name in ((route.body as TObject | undefined)?.properties ?? {})
      return kind !== undefined && (!isKnown || dropped?.get(name) === kind)
    }
    return Object.fromEntries(Object.entries(sent).filter((field) => !isDefault(field)))
  }
}

/** Fields whose empty value means "omitted". */
function defaultsOf({ body, vendorDefaults = [] }: Route): Map<string, EmptyKind> {
  const defaults = new Map<string, EmptyKind>()
  for (const [name, schema] of Object.entries((body as TObject | undefined)?.properties ?? {})) {
    const kind = emptyKindOf(schema as TSchema)
    const cannotBeEmpty = kind && !accepts(schema as TSchema, empty[kind])
    if (kind && (cannotBeEmpty || vendorDefaults.includes(name))) defaults.set(name, kind)
  }
  return defaults
}

type Shape = {
  readonly type?: unknown
  readonly properties?: Readonly<Record<string, Shape>>
  readonly items?: Shape
  readonly anyOf?: readonly Shape[]
  readonly 'x-vendor'?: object
}

/** Adds the fields of `x-vendor` and missing text fields (as ""), for libraries that read every field of a resource. */
function withEveryField(schema: Shape, value: unknown): unknown {
  if (Array.isArray(value)) return value.map((item) => withEveryField(schema.items ?? {}, item))
  const { properties, 'x-vendor': others } = schema.anyOf?.find((one) => one.properties) ?? schema
  if (typeof value !== 'object' || value === null || !properties) return value
  const texts = Object.entries(properties).filter(([name, { type }]) => type === 'string' && !(name in value))
  const shown = Object.entries(value).map(([name, inner]) => [name, withEveryField(properties[name] ?? {}, inner)])
  return { ...others, ...Object.fromEntries(texts.map(([name]) => [name, ''])), ...Object.fromEntries(shown) }
}

/** The vendor's newer name for bots. */
const serviceUsers = /^\/service_users(?=[/?]|$)/

/** Translates the vendor's path into ours. */
export function ownUrl({ url = '', headersDistinct }: IncomingMessage, versionHeaders: readonly string[]): string {
  const isRenamed = serviceUsers.test(url) && isVendorClient(headersDistinct, versionHeaders)
  return isRenamed ? url.replace(serviceUsers, '/bot_users') : url
}

function asServiceUsers({ bot_users, ...body }: { bot_users?: readonly object[] }): object {
  const renamed = (one: object) =>
    Object.fromEntries(
      Object.entries(one).map(([name, value]) => [
        name,
        name.endsWith('uri') && typeof value === 'string' ? value.replace('/bot_users', '/service_users') : value,
      ]),
    )
  return { ...(bot_users && { service_users: bot_users.map(renamed) }), ...renamed(body) }
}

export function vendorBody({ response, slices }: Route, raw: IncomingMessage, body: unknown): unknown {
  if (!response || slices || typeof body !== 'object' || body === null) return body
  const shown = withEveryField(response as Shape, body) as object
  return serviceUsers.test(String(Reflect.get(raw, 'originalUrl'))) ? asServiceUsers(shown) : shown
}
