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

/**
 * Indexes which records reference which, so that a change finds the affected TCP edges and routes without scanning all
 * records: a node may have a million.
 */
export function createReferences(records: Iterable<EdgeRecord>) {
  /** Keyed by the referenced id. Most ids have a single reference, and a set for each would take most of the memory. */
  const naming = new Map<string, RecordKey | Set<RecordKey>>()

  function add(id: string, by: RecordKey): void {
    const known = naming.get(id)
    if (known === undefined) naming.set(id, by)
    else if (typeof known !== 'string') known.add(by)
    else if (known !== by) naming.set(id, new Set([known, by]))
  }

  function remove(id: string, by: RecordKey): void {
    const known = naming.get(id)
    if (typeof known === 'object') known.delete(by)
    if (known === by || (typeof known === 'object' && known.size === 0)) naming.delete(id)
  }

  function namedBy(id: string): Iterable<RecordKey> {
    const known = naming.get(id)
    return typeof known === 'string' ? [known] : (known ?? [])
  }

  /** Accounts' restrictions may reference a policy, and groups a backend. Those references have to be followed. */
  function follow(key: RecordKey, affected: Set<string>, seen: Set<RecordKey>): void {
    if (seen.has(key)) return
    seen.add(key)
    if (isTarget(key)) affected.add(idOf(key))
    else for (const by of namedBy(idOf(key))) follow(by, affected, seen)
  }

  for (const record of records) for (const id of namesOf(record)) add(id, record.key)

  return {
    /** `before` is the previously known version of the record. */
    replace(before: EdgeRecord | undefined, after: EdgeRecord): void {
      if (before === after) return
      if (before) for (const id of namesOf(before)) remove(id, before.key)
      for (const id of namesOf(after)) add(id, after.key)
    },

    /** Ids of the TCP edges and routes whose decision or destination these records may change. */
    affected(changed: readonly EdgeRecord[]): string[] {
      const affected = new Set<string>()
      const seen = new Set<RecordKey>()
      for (const { key } of changed) follow(key, affected, seen)
      return [...affected]
    },
  }
}

/** Ids of everything that decides about the traffic of this record or of the records that reference it. */
function namesOf({ key, value }: EdgeRecord): string[] {
  if (value === null) return []
  if (isTarget(key)) {
    const { account, backend, policies, edge } = value as TcpRecord & Partial<RouteRecord>
    return [account, ...(edge ? [edge] : []), ...(backend ? [backend] : []), ...(policies ?? [])]
  }
  const kind = kindOf(key)
  if (kind === 'restrictions') return (value as RestrictionsRecord).sets.flatMap(({ policies }) => policies)
  if (kind === 'weighted') return (value as WeightedRecord).backends.map(([id]) => id)
  if (kind !== 'failover') return []
  const { backends, response } = value as FailoverRecord
  return [...backends, ...(response ? [response] : [])]
}

const isTarget = (key: RecordKey): boolean => kindOf(key) === 'tcp' || kindOf(key) === 'route'
const idOf = (key: RecordKey): string => key.slice(key.indexOf('.') + 1)
