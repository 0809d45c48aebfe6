import type { Db } from '../../db/pool.ts'
import { writeSalvaging } from '../../db/salvage.ts'
import type { Report } from '../../distribution/channels.ts'
import { type Id, toUuid } from '../../kernel/ids.ts'
import {
  deleteHealthBefore,
  deleteHealthOfNode,
  healthKnownForMs,
  maxAddressesPerNode,
  type ReportedHealth,
  writeHealth,
} from '../../resources/backends/health_store.ts'

/**
 * States kept of one node between two writes: as many as a node sends. A node may be stolen: with this and the time after
 * which states are no longer known, the table stays bounded.
 */
const maxPending = 500
/** What is not reported any more is not shown either way. */
const deleteEveryMs = 10_000

type Pending = {
  /** When the agent started. */
  startedAt: string
  isWritten: boolean
  states: Map<string, ReportedHealth>
  addresses: Map<string, number>
}

/** Brings what nodes report about upstreams into the database, the latest state of each address. */
export function createHealthBuffer(db: Db, onDropped: (states: number) => void) {
  const nodes = new Map<string, Pending>()
  let deletedAt = 0

  function pendingOf({ node, startedAt }: Report): Pending {
    const known = nodes.get(node)
    if (known?.startedAt === startedAt) return known
    const pending = { startedAt, isWritten: false, states: new Map(), addresses: new Map() }
    nodes.set(node, pending)
    return pending
  }

  function add(report: Report, reportedAt: number): void {
    const { states, addresses } = pendingOf(report)
    for (const { backend, address, port, status, reason, since, lastFailedAt = null } of report.health ?? []) {
      const key = `${backend} ${address} ${port}`
      const ofBackend = addresses.get(backend) ?? 0
      if (!states.has(key)) {
        if (states.size >= maxPending || ofBackend >= maxAddressesPerNode) {
          onDropped(1)
          continue
        }
        addresses.set(backend, ofBackend + 1)
      }
      const backendId = toUuid(backend as Id<'bkdst'>)
      states.set(key, { backendId, node: report.node, address, port, status, reason, since, lastFailedAt, reportedAt })
    }
  }

  return {
    add,
    /** Call it every two seconds or so. What cannot be written now is reported again by the nodes. */
    async flush(now: number): Promise<void> {
      const rows: ReportedHealth[] = []
      for (const [node, pending] of nodes) {
        if (!pending.isWritten) await deleteHealthOfNode(db, node, pending.startedAt)
        pending.isWritten = true
        rows.push(...pending.states.values())
        pending.states.clear()
        pending.addresses.clear()
      }
      await writeSalvaging(
        rows,
        (some) => writeHealth(db, some),
        () => onDropped(1),
      )
      if (Math.abs(now - deletedAt) < deleteEveryMs) return
      await deleteHealthBefore(db, now - healthKnownForMs)
      deletedAt = now
    },
  }
}
