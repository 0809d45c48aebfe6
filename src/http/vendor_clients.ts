import type { TObject, TSchema } from 'typebox'
import type { Route } from './route.ts'
import { accepts } from './validate.ts'

/**
 * What is read differently for client libraries written for the vendor's API: those that name the version in one of the
 * operator's alias headers and not in ours. Some of them send an empty value for every argument that was left out.
 */
export function isVendorClient(headers: NodeJS.Dict<string[]>, versionHeaders: readonly string[]): boolean {
  const [own = '', ...aliases] = versionHeaders
  return headers[own] === undefined && aliases.some((alias) => headers[alias] !== undefined)
}

/** Drops the fields of a PATCH that are empty only because the library's caller left them out. */
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

export function dropDefaults(route: Route): DropDefaults {
  if (route.method !== 'PATCH') return (sent) => sent
  let dropped: Map<string, EmptyKind> | undefined
  return (sent) => {
    if (typeof sent !== 'object' || sent === null || Array.isArray(sent)) return sent
    dropped ??= defaultsOf(route)
    const isDefault = ([name, value]: [string, unknown]) => {
      const kind = emptyKind(value)
      return kind !== undefined && dropped?.get(name) === kind
    }
    return Object.fromEntries(Object.entries(sent).filter((field) => !isDefault(field)))
  }
}

/** The fields whose empty value means that they were left out. */
function defaultsOf({ body, vendorDefaults = [] }: Route): Map<string, EmptyKind> {
  const defaults = new Map<string, EmptyKind>()
  for (const [name, schema] of Object.entries((body as TObject | undefined)?.properties ?? {})) {
    const kind = emptyKindOf(schema as TSchema)
    const cannotBeEmpty = kind && !accepts(schema as TSchema, empty[kind])
    if (kind && (cannotBeEmpty || vendorDefaults.includes(name))) defaults.set(name, kind)
  }
  return defaults
}
