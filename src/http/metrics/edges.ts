import { Gauge, type Registry } from 'prom-client'
import { type EdgeNode, upstreamStatuses } from '../../kernel/edge/edge_nodes.ts'

type Registers = Registry[]
type Shown = Pick<
  EdgeNode,
  | 'cell'
  | 'live'
  | 'applied'
  | 'refusals'
  | 'refused'
  | 'storageFault'
  | 'differences'
  | 'emergencies'
  | 'shutLimits'
  | 'upstreams'
  | 'certificates'
>

export type EdgeMetrics = {
  /** Sets the source of edge nodes, which is read on every scrape. */
  readonly watchEdgeNodes: (nodes: () => readonly Shown[]) => void
  /** Number of nodes by state. */
  readonly showNodeStates: (counts: Readonly<Record<string, number>>) => void
  /** Enables the metric of the NATS connection. */
  readonly watchNats: (isConnected: () => boolean) => void
  /** Whether NATS may lack accounts of edge nodes; undefined if it is not in operator mode. */
  readonly watchNatsAccounts: (isOutdated: () => boolean | undefined) => void
}

function gauge(registers: Registers, name: string, help: string, value: () => number): void {
  new Gauge({
    name,
    help,
    registers,
    collect() {
      this.set(value())
    },
  })
}

/** `progress`: the generation sent by this process, by cell. */
export function edgeMetrics(registers: Registers, progress: ReadonlyMap<string, number>): EdgeMetrics {
  let natsConnected: (() => boolean) | undefined
  new Gauge({
    name: 'gatehouse_nats_connected',
    help: '1 while this process is connected to NATS. Absent without NATS.',
    // A gauge without labels would report 0 if there is nothing to report.
    labelNames: ['connected'],
    registers,
    collect() {
      if (natsConnected) this.set({}, natsConnected() ? 1 : 0)
    },
  })
  let natsAccountsOutdated: () => boolean | undefined = () => undefined
  new Gauge({
    name: 'gatehouse_nats_accounts_outdated',
    help: '1 while NATS may lack the account of an edge node or a revocation. Absent unless NATS is in operator mode.',
    labelNames: ['outdated'],
    registers,
    collect() {
      const isOutdated = natsAccountsOutdated()
      this.reset()
      if (isOutdated !== undefined) this.set({}, isOutdated ? 1 : 0)
    },
  })
  let edgeNodes: () => readonly Shown[] = () => []
  const liveNodes = () => edgeNodes().filter(({ live }) => live)
  new Gauge({
    name: 'gatehouse_edge_nodes',
    help: 'Edge nodes, by whether they have reported recently.',
    labelNames: ['live'],
    registers,
    collect() {
      const nodes = edgeNodes()
      for (const live of [true, false])
        this.set({ live: String(live) }, nodes.filter((node) => node.live === live).length)
    },
  })
  gauge(
    registers,
    'gatehouse_edge_nodes_behind',
    'Live edge nodes that have not applied what was sent to their cell, or what another node of it has applied.',
    () => {
      const latest = new Map(progress)
      for (const { cell, applied } of liveNodes()) latest.set(cell, Math.max(applied, latest.get(cell) ?? 0))
      return liveNodes().filter(({ cell, applied }) => applied < (latest.get(cell) ?? 0)).length
    },
  )
  new Gauge({
    name: 'gatehouse_edge_applied_generation_min',
    help: 'Lowest generation applied by any live edge node. Absent when no node is live.',
    // A gauge without labels would report 0 when no node is live.
    labelNames: ['live'],
    registers,
    collect() {
      const applied = liveNodes().map((node) => node.applied)
      this.reset()
      if (applied.length) this.set({}, Math.min(...applied))
    },
  })
  faultMetrics(registers, liveNodes)
  return {
    watchNats(isConnected) {
      natsConnected = isConnected
    },
    watchNatsAccounts(isOutdated) {
      natsAccountsOutdated = isOutdated
    },
    showNodeStates: nodeStates(registers),
    watchEdgeNodes(nodes) {
      edgeNodes = nodes
    },
  }
}

function nodeStates(registers: Registers): EdgeMetrics['showNodeStates'] {
  const gauge = new Gauge({
    name: 'gatehouse_edge_nodes_by_state',
    help: 'Edge nodes by state, as /edge_nodes shows it: up, degraded, down, unknown. Updated every 15 seconds.',
    labelNames: ['state'],
    registers,
  })
  return (counts) => {
    for (const [state, count] of Object.entries(counts)) gauge.set({ state }, count)
  }
}

/** Faults of live nodes. */
function faultMetrics(registers: Registers, liveNodes: () => readonly Shown[]): void {
  gauge(registers, 'gatehouse_edge_nodes_refusals', 'Records that live edge nodes rejected and do not enforce.', () =>
    liveNodes().reduce((sum, { refused, refusals }) => sum + (refused?.records ?? refusals.length), 0),
  )
  gauge(
    registers,
    'gatehouse_edge_nodes_storage_failing',
    'Live edge nodes that cannot write to their disks.',
    () => liveNodes().filter(({ storageFault }) => storageFault !== undefined).length,
  )
  gauge(
    registers,
    'gatehouse_edge_nodes_differing',
    'Live edge nodes whose HAProxy another program changed, and was not found right since.',
    () => liveNodes().filter(({ differences }) => differences?.since != null).length,
  )
  gauge(
    registers,
    'gatehouse_edge_nodes_in_emergency',
    'Live edge nodes that refuse addresses by an emergency order.',
    () => liveNodes().filter(({ emergencies = [] }) => emergencies.length > 0).length,
  )
  gauge(
    registers,
    'gatehouse_edge_nodes_shut_limits',
    'Routes and TCP edges that are shut because the number of nodes that share their limits is not known, summed over live edge nodes.',
    () => liveNodes().reduce((sum, { shutLimits = 0 }) => sum + shutLimits, 0),
  )
  gauge(
    registers,
    'gatehouse_edge_nodes_missing_certificates',
    'Names of HTTPS edges without a certificate, summed over live edge nodes.',
    () => liveNodes().reduce((sum, { certificates }) => sum + (certificates?.missing ?? 0), 0),
  )
  new Gauge({
    name: 'gatehouse_edge_nodes_upstreams',
    help: 'Addresses of backends by status, summed over live edge nodes. failing: requests failed within five minutes.',
    labelNames: ['status'],
    registers,
    collect() {
      for (const status of upstreamStatuses)
        this.set(
          { status },
          liveNodes().reduce((sum, { upstreams }) => sum + (upstreams?.[status] ?? 0), 0),
        )
    },
  })
}
