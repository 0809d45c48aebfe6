import { createHash } from 'node:crypto'
import type { Thing } from './kinds.ts'

/** Matches the file's resources to those of the account. */
export type Pairs = ReadonlyMap<Thing, Thing>

/** Names that identify a resource. Two resources that share one are the same. */
type Identity = (thing: Thing) => string[]

const text = (value: unknown): string => JSON.stringify(value, sorted)
const sorted = (_: string, value: unknown) =>
  value && typeof value === 'object' && !Array.isArray(value)
    ? Object.fromEntries(Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1)))
    : value

const contentOf = ({ fields, rules = [], routes = [] }: Thing): string =>
  createHash('sha256')
    .update(text([fields, rules.map(text).toSorted(), routes.map(({ fields: inner }) => text(inner)).toSorted()]))
    .digest('base64')

const description = ({ fields }: Thing): string[] => (fields.description ? [String(fields.description)] : [])
const hostports = ({ fields }: Thing): string[] => (fields.hostports ?? []) as string[]

/** The same members with other weights, or in another order. */
const members = ({ fields: { backends, description: told } }: Thing): string[] => {
  const ids = Array.isArray(backends) ? backends : Object.keys(backends as object)
  return [text([ids.toSorted(), told])]
}

/**
 * The names of each kind, most reliable first. A resource that none of them matches is new: taking another one for it
 * would change a resource with another purpose. An id takes precedence.
 */
const identities: Record<Thing['kind'], Identity[]> = {
  ip_policies: [(thing) => [contentOf(thing)], description],
  backends: [
    (thing) => [contentOf(thing)],
    ({ fields: { address, tls, description: told } }) => [text([address, tls, told])],
  ],
  http_response_backends: [(thing) => [contentOf(thing)], description],
  weighted_backends: [(thing) => [contentOf(thing)], members, description],
  failover_backends: [(thing) => [contentOf(thing)], members, description],
  reserved_domains: [({ fields: { domain } }) => [String(domain)]],
  ip_restrictions: [
    (thing) => [contentOf(thing)],
    ({ fields: { type, ip_policies, description: told } }) => [text([type, ip_policies, told])],
    ({ fields: { type, description: told } }) => (told ? [text([type, told])] : []),
  ],
  tcp_edges: [hostports, (thing) => (hostports(thing).length ? [] : [contentOf(thing)])],
  https_edges: [hostports, (thing) => (hostports(thing).length ? [] : [contentOf(thing)])],
  routes: [({ fields: { match_type, match } }) => [text([match_type, match])]],
}

export function matchThings(wanted: readonly Thing[], present: readonly Thing[]): Map<Thing, Thing> {
  const pairs = new Map<Thing, Thing>()
  const taken = new Set<Thing>()
  const take = (thing: Thing, found: Thing) => {
    pairs.set(thing, found)
    taken.add(found)
  }
  const byId = new Map(present.map((thing) => [thing.id, thing]))
  for (const thing of wanted) {
    const found = thing.id === undefined ? undefined : byId.get(thing.id)
    if (found && !taken.has(found) && canBecome(found, thing)) take(thing, found)
  }
  const [kind] = wanted.map((thing) => thing.kind)
  for (const identity of kind ? identities[kind] : []) {
    const free = new Map<string, Thing[]>()
    for (const thing of present)
      if (!taken.has(thing))
        for (const name of identity(thing)) {
          const same = free.get(name)
          if (same) same.push(thing)
          else free.set(name, [thing])
        }
    for (const thing of wanted) {
      if (pairs.has(thing)) continue
      const found = identity(thing)
        .flatMap((name) => free.get(name) ?? [])
        .find((each) => !taken.has(each))
      if (found) take(thing, found)
    }
  }
  if (kind === 'https_edges' || kind === 'ip_policies')
    for (const thing of wanted) {
      if (pairs.has(thing)) continue
      const found = present.find((each) => !taken.has(each) && isBeginningOf(each, thing))
      if (found) take(thing, found)
    }
  return pairs
}

/** A restriction's type and a reserved domain's name cannot change after creation. */
const canBecome = (present: Thing, wanted: Thing): boolean =>
  (wanted.kind !== 'ip_restrictions' || present.fields.type === wanted.fields.type) &&
  (wanted.kind !== 'reserved_domains' || present.fields.domain === wanted.fields.domain)

/**
 * Leftovers of an aborted run: an IP policy without rules, or an HTTPS edge without hostports and with some of its
 * routes. Nothing can be using them.
 */
function isBeginningOf(present: Thing, wanted: Thing): boolean {
  const { hostports: _, ...rest } = wanted.fields
  if (text(present.fields) !== text(rest)) return false
  if (wanted.kind === 'ip_policies') return present.rules?.length === 0
  const routes = new Set((wanted.routes ?? []).map(({ fields }) => text(fields)))
  return (present.routes ?? []).every(({ fields }) => routes.has(text(fields)))
}
