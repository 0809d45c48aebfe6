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
 * Maximum states kept of one node between two writes; a node sends no more. A node may be stolen: this limit, and the
 * expiry of states, keep the table bounded.
 */
const maxPending = 500
/** Expired states are hidden anyway, so deletion can wait. */
const deleteEveryMs = 10_000

type Pending = {
  /** When the agent started. */
  startedAt: string
  isWritten: boolean
  states: Map<string, ReportedHealth>
  addresses: Map<string, number>
}

/** Writes the latest reported state of each upstream address to the database. */
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
    /** Call it about every two seconds. Nodes repeat their reports, so a failed write is only delayed. */
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
