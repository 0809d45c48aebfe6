import {
  type BackendRecord,
  type EdgeRecord,
  type FailoverRecord,
  kindOf,
  type RecordKey,
  type RouteRecord,
  type TcpRecord,
  type WeightedRecord,
} from '../../distribution/records.ts'
import type { UpstreamPolicy } from './policy.ts'
import type { ResolvedBackend, UpstreamResolver, Wanted } from './resolver.ts'

type Known = ReadonlyMap<RecordKey, EdgeRecord>
type Handlers = {
  /** `address` is only for the log: tenants must not learn what a name resolves to on the node. */
  refused: (record: EdgeRecord, reason: string, address: string) => void
  accepted: (key: RecordKey) => void
}

/** Edges, routes and groups, with the backends that they name. */
function* usersAmong(records: Iterable<EdgeRecord>): Generator<{ account: string; backends: readonly string[] }> {
  for (const { key, value } of records) {
    const kind = kindOf(key)
    if (value === null) continue
    if (kind === 'tcp' || kind === 'route') {
      const { account, backend } = value as TcpRecord | RouteRecord
      if (backend !== null) yield { account, backends: [backend] }
    }
    if (kind === 'weighted' || kind === 'failover') {
      const { account, backends } = value as WeightedRecord | FailoverRecord
      yield { account, backends: backends.map((member) => (typeof member === 'string' ? member : member[0])) }
    }
  }
}

/** Decides where backends are dialed: resolves their names, and checks their addresses. */
export function createUpstreams(resolver: UpstreamResolver, policy: UpstreamPolicy) {
  /** The account of each backend that an edge or route uses. Records of backends do not name it. */
  const owners = new Map<RecordKey, string>()
  const faults = new Map<RecordKey, string>()

  return {
    /** Queries the names of these backends, and of those that these edges and routes use. */
    async prepare(records: Iterable<EdgeRecord>, known: Known): Promise<void> {
      const wanted = new Map<RecordKey, BackendRecord>()
      const changed = new Set<RecordKey>()
      for (const { key, value } of records) {
        if (kindOf(key) !== 'backend') continue
        changed.add(key)
        if (value !== null) wanted.set(key, value as BackendRecord)
      }
      for (const { account, backends } of usersAmong(records)) {
        for (const backend of backends) {
          const used: RecordKey = `backend.${backend}`
          owners.set(used, account)
          const record = changed.has(used) ? undefined : known.get(used)?.value
          if (record) wanted.set(used, record as BackendRecord)
        }
      }
      const all = [...wanted].map(([key, record]): Wanted => {
        const owner = owners.get(key)
        return { record, accounts: owner === undefined ? [] : [owner] }
      })
      await resolver.prepare(all)
    },

    /** Has no address if the name has none, or none that may be dialed. */
    resolve(record: EdgeRecord, { refused, accepted }: Handlers): ResolvedBackend {
      const { key, generation, value } = record
      const resolved = resolver.resolve(key, value as BackendRecord)
      const { address, port, host, addresses = address === null ? [] : [address] } = resolved
      const faultOf = new Map(addresses.map((each) => [each, policy.fault(each, port)]))
      const dialed = addresses.filter((each) => faultOf.get(each) === undefined)
      const [first] = addresses.filter((each) => !dialed.includes(each))
      if (first === undefined) {
        if (faults.delete(key)) accepted(key)
        return resolved
      }
      const reason = reasonOf(host === address, addresses.length, dialed.length, faultOf.get(first) ?? '')
      // Resolved every few seconds, but reported once.
      const told = `${generation} ${reason}`
      if (faults.get(key) !== told) refused(record, reason, first)
      faults.set(key, told)
      return { ...resolved, address: dialed[0] ?? null, addresses: dialed }
    },

    forget(key: RecordKey): void {
      resolver.forget(key)
      faults.delete(key)
      owners.delete(key)
    },

    /** True if the addresses of this machine or the control plane have changed. Every upstream must be checked again. */
    havePolicyAddressesChanged: (): boolean => policy.refresh(),
    state: () => ({ refusedUpstreams: faults.size, unresolvedNames: resolver.unresolved() }),
  }
}
export type Upstreams = ReturnType<typeof createUpstreams>

/** The end of a sentence that begins with the record. */
function reasonOf(isItsOwn: boolean, addresses: number, dialed: number, fault: string): string {
  if (addresses === 1) return `is not dialed: ${isItsOwn ? 'its address' : 'the address of its name'} ${fault}`
  const left = addresses - dialed
  const extent = dialed === 0 ? 'is not dialed' : `is dialed without ${left} of the ${addresses} addresses of its name`
  return `${extent}: one of them ${fault}`
}
