import { type Id, type IdPrefix, isId } from '../ids.ts'

/** Kinds of backends and their id prefixes. The length of a prefix must never change: entries on nodes rely on it. */
export const backendKinds = {
  static: 'bkdst',
  weighted: 'bkdwd',
  failover: 'bkdfo',
  http_response: 'bkdhr',
} as const satisfies Record<string, IdPrefix>

export type BackendKind = keyof typeof backendKinds
export type BackendPrefix = (typeof backendKinds)[BackendKind]
export type BackendId = Id<BackendPrefix>

/** Groups cannot contain groups: each server is at most one step away from an edge or route. */
export const maxMembers = 50
export const maxWeight = 10_000

export const backendPrefixes: readonly BackendPrefix[] = Object.values(backendKinds)

export function backendKindOf(id: BackendId): BackendKind {
  const kinds = Object.keys(backendKinds) as BackendKind[]
  const kind = kinds.find((each) => isId(backendKinds[each], id))
  if (!kind) throw new Error(`${id} is not the id of a backend`)
  return kind
}
