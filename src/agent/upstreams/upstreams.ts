import {
  type BackendRecord,
  type EdgeRecord,
  kindOf,
  type RecordKey,
  type RouteRecord,
  type TcpRecord,
} from '../../distribution/records.ts'
import type { UpstreamPolicy } from './policy.ts'
import type { ResolvedBackend, UpstreamResolver, Wanted } from './resolver.ts'

type Known = ReadonlyMap<RecordKey, EdgeRecord>
type Handlers = {
  /** `address` is only for the log: tenants must not learn what a name resolves to on the node. */
  refused: (record: EdgeRecord, reason: string, address: string) => void
  accepted: (key: RecordKey) => void
}

/** Where backends are dialed: their names resolved, and their addresses allowed. */
export function createUpstreams(resolver: UpstreamResolver, policy: UpstreamPolicy) {
  /** The account of each backend that an edge or route uses; records of backends do not say it. */
  const owners = new Map<RecordKey, string>()
  const faults = new Map<RecordKey, string>()

  return {
    /** Asks for the names of these backends, and of those that these edges and routes use. */
    async prepare(records: Iterable<EdgeRecord>, known: Known): Promise<void> {
      const wanted = new Map<RecordKey, BackendRecord>()
      const changed = new Set<RecordKey>()
      for (const { key, value } of records) {
        if (kindOf(key) !== 'backend') continue
        changed.add(key)
        if (value !== null) wanted.set(key, value as BackendRecord)
      }
      for (const { key, value } of records) {
        const kind = kindOf(key)
        if (value === null || (kind !== 'tcp' && kind !== 'route')) continue
        const { account, backend } = value as TcpRecord | RouteRecord
        if (backend === null) continue
        const used: RecordKey = `backend.${backend}`
        owners.set(used, account)
        const record = changed.has(used) ? undefined : known.get(used)?.value
        if (record) wanted.set(used, record as BackendRecord)
      }
      const all = [...wanted].map(([key, record]): Wanted => {
        const owner = owners.get(key)
        return { record, accounts: owner === undefined ? [] : [owner] }
      })
      await resolver.prepare(all)
    },

    /** Without an address when there is none, or none that may be dialed. */
    resolve(record: EdgeRecord, { refused, accepted }: Handlers): ResolvedBackend {
      const { key, generation, value } = record
      const resolved = resolver.resolve(key, value as BackendRecord)
      const { address, port, host } = resolved
      const fault = address === null ? undefined : policy.fault(address, port)
      if (address === null || fault === undefined) {
        if (faults.delete(key)) accepted(key)
        return resolved
      }
      const reason = `is not dialed: ${host === address ? 'its address' : 'the address of its name'} ${fault}`
      // Looked up every few seconds, but reported once.
      const told = `${generation} ${reason}`
      if (faults.get(key) !== told) refused(record, reason, address)
      faults.set(key, told)
      return { ...resolved, address: null }
    },

    forget(key: RecordKey): void {
      resolver.forget(key)
      faults.delete(key)
      owners.delete(key)
    },

    /** True when this machine has other addresses than before: every upstream must be asked about again. */
    haveOwnAddressesChanged: (): boolean => policy.refresh(),
    state: () => ({ refusedUpstreams: faults.size, unresolvedNames: resolver.unresolved() }),
  }
}
export type Upstreams = ReturnType<typeof createUpstreams>
