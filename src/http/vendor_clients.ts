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

const emptyKind = (value: unknown): 'text' | 'list' | undefined =>
  value === '' ? 'text' : Array.isArray(value) && value.length === 0 ? 'list' : undefined

const emptyKindOf = ({ type }: TSchema & { type?: string | string[] }): 'text' | 'list' | undefined =>
  [type].flat().includes('string') ? 'text' : type === 'array' ? 'list' : undefined

export function dropDefaults(route: Route): DropDefaults {
  if (route.method !== 'PATCH') return (sent) => sent
  let dropped: Map<string, 'text' | 'list'> | undefined
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
function defaultsOf({ body, vendorDefaults = [] }: Route): Map<string, 'text' | 'list'> {
  const defaults = new Map<string, 'text' | 'list'>()
  for (const [name, schema] of Object.entries((body as TObject | undefined)?.properties ?? {})) {
    const kind = emptyKindOf(schema as TSchema)
    const cannotBeEmpty = !accepts(schema as TSchema, kind === 'list' ? [] : '')
    if (kind && (cannotBeEmpty || vendorDefaults.includes(name))) defaults.set(name, kind)
  }
  return defaults
}
