import {
  type EdgeRecord,
  type FailoverRecord,
  kindOf,
  type RecordKey,
  type RestrictionsRecord,
  type RouteRecord,
  type TcpRecord,
  type WeightedRecord,
} from '../distribution/records.ts'

/** The TCP edges and routes whose decision or destination may have changed with these records, by id. */
export function affectedTargets(changed: readonly EdgeRecord[], records: ReadonlyMap<RecordKey, EdgeRecord>): string[] {
  if (changed.length === 0) return []
  const ids = new Set(changed.map(({ key }) => idOf(key)))
  const affected = new Set(changed.filter(({ key }) => isTarget(key)).map(({ key }) => idOf(key)))
  for (const { key, value } of records.values()) {
    if (!isTarget(key) || value === null) continue
    const { account, backend, policies, edge } = value as TcpRecord & Partial<RouteRecord>
    const restrictions = records.get(`restrictions.${account}`)?.value as RestrictionsRecord | null | undefined
    const named = [
      account,
      edge,
      backend,
      ...membersOf(backend, records),
      ...(policies ?? []),
      ...(restrictions?.sets.flatMap((set) => set.policies) ?? []),
    ]
    if (named.some((id) => typeof id === 'string' && ids.has(id))) affected.add(idOf(key))
  }
  return [...affected]
}

/** Of a group. */
function membersOf(backend: string | null, records: ReadonlyMap<RecordKey, EdgeRecord>): string[] {
  const weighted = records.get(`weighted.${backend}`)?.value as WeightedRecord | null | undefined
  const failover = records.get(`failover.${backend}`)?.value as FailoverRecord | null | undefined
  return [...(weighted?.backends.map(([id]) => id) ?? []), ...(failover?.backends ?? [])]
}

const isTarget = (key: RecordKey): boolean => kindOf(key) === 'tcp' || kindOf(key) === 'route'
const idOf = (key: RecordKey): string => key.slice(key.indexOf('.') + 1)
