import {
  type EdgeRecord,
  kindOf,
  type RecordKey,
  type RestrictionsRecord,
  type TcpRecord,
} from '../distribution/records.ts'

/** The TCP edges whose decision or destination may have changed with these records. */
export function affectedTcpEdges(
  changed: readonly EdgeRecord[],
  records: ReadonlyMap<RecordKey, EdgeRecord>,
): string[] {
  if (changed.length === 0) return []
  const ids = new Set(changed.map(({ key }) => key.slice(key.indexOf('.') + 1)))
  const tcpChanged = changed.filter(({ key }) => kindOf(key) === 'tcp').map(({ key }) => key.slice(4))
  const affected = new Set(tcpChanged)
  for (const { key, value } of records.values()) {
    if (kindOf(key) !== 'tcp' || value === null) continue
    const { account, backend, policies } = value as TcpRecord
    const restrictions = records.get(`restrictions.${account}`)?.value as RestrictionsRecord | null | undefined
    const named = [account, backend, ...(policies ?? []), ...(restrictions?.sets.flatMap((set) => set.policies) ?? [])]
    if (named.some((id) => id !== null && ids.has(id))) affected.add(key.slice(4))
  }
  return [...affected]
}
