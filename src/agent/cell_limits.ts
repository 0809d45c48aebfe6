import { type EdgeRecord, kindOf, type RecordKey, type RouteRecord, type TcpRecord } from '../distribution/records.ts'

/**
 * Tracks routes and TCP edges that let no one through because they have a limit of the cell and the node does not know
 * the number of nodes. Only targets with such a limit take memory.
 */
export function createCellLimits(known: ReadonlyMap<RecordKey, EdgeRecord>) {
  const accounts = new Map<RecordKey, string>()
  const limited = new Map<string, Set<RecordKey>>()
  const withoutNumber = new Set<string>()

  function noteNumber(account: string): void {
    const isKnown = (known.get(`cell_nodes.${account}` as RecordKey)?.value ?? null) !== null
    if (limited.has(account) && !isKnown) withoutNumber.add(account)
    else withoutNumber.delete(account)
  }

  function forget(key: RecordKey): void {
    const account = accounts.get(key)
    if (account === undefined) return
    accounts.delete(key)
    const keys = limited.get(account)
    keys?.delete(key)
    if (keys?.size === 0) limited.delete(account)
    noteNumber(account)
  }

  return {
    /** Call this for each new or changed record. */
    note(key: RecordKey): void {
      const kind = kindOf(key)
      if (kind === 'cell_nodes') noteNumber(key.slice('cell_nodes.'.length))
      if (kind !== 'route' && kind !== 'tcp') return
      forget(key)
      const value = known.get(key)?.value as RouteRecord | TcpRecord | null | undefined
      if (value?.rate_limit?.scope !== 'cell') return
      accounts.set(key, value.account)
      limited.set(value.account, (limited.get(value.account) ?? new Set()).add(key))
      noteNumber(value.account)
    },
    shut: (): number => withoutNumber.values().reduce((sum, account) => sum + (limited.get(account)?.size ?? 0), 0),
  }
}
export type CellLimits = ReturnType<typeof createCellLimits>
