import { once } from 'node:events'
import { createServer } from 'node:net'
import type { createAgent } from '../../agent/agent.ts'
import type { Storage } from '../../agent/disk/storage.ts'
import type { Emergencies } from '../../agent/emergencies.ts'
import type { EdgeProxy } from '../../agent/haproxy/apply.ts'
import { usageMetrics } from '../../agent/haproxy/config/limits.ts'
import { frontendMetrics } from '../../agent/haproxy/lines/frontend_metrics.ts'
import type { ProxySettings } from '../../agent/haproxy/settings.ts'
import type { Differences } from '../../agent/reports/differences.ts'
import type { Health } from '../../agent/reports/health.ts'
import type { RuleHits } from '../../agent/reports/rule_hits.ts'
import { serveStatus } from '../../agent/reports/status_server.ts'
import type { EdgeConfig } from '../../config/config.ts'
import { nodeKeyFingerprint } from '../../distribution/delivery.ts'
import { clockFault } from '../../kernel/clock.ts'
import { lostLogLines } from '../log.ts'
import { askNode } from './ask_node.ts'
import type { Link } from './link.ts'
import type { Requests } from './requests.ts'

type StatusListen = Pick<EdgeConfig, 'GATEHOUSE_EDGE_STATUS_LISTEN'>

/**
 * Runs before HAProxy starts: an agent that exits because it cannot listen would leave HAProxy behind. Rejects with
 * EADDRINUSE.
 */
export async function requireStatusPort({ GATEHOUSE_EDGE_STATUS_LISTEN: listen }: StatusListen): Promise<void> {
  const server = createServer().listen(listen)
  await once(server, 'listening')
  server.close()
  await once(server, 'close')
}

type Node = {
  settings: ProxySettings
  agent: ReturnType<typeof createAgent>
  health: Health
  link: Link
  natives: EdgeProxy['natives']
  requests: Requests
  ruleHits: Pick<RuleHits, 'lost'>
  current: () => { nodeKey: string }
  storage: Pick<Storage, 'fault' | 'failures'>
  differences: Pick<Differences, 'state'>
  emergencies: Pick<Emergencies, 'state' | 'take' | 'unread'>
  isDraining: () => boolean
}

export function serveNodeStatus({ GATEHOUSE_EDGE_STATUS_LISTEN: listen }: StatusListen, node: Node) {
  const { settings, agent, health, link, natives, requests, ruleHits, storage, differences, emergencies } = node
  const { current, isDraining } = node
  const fingerprint = nodeKeyFingerprint(current().nodeKey)
  const status = () => ({
    ...current(),
    nodeKeyFingerprint: fingerprint,
    connected: link.isConnected(),
    natsFault: link.fault(),
    clockFault: clockFaultOf(link),
    upstreams: { ...health.counts(), troubled: troubled(health) },
  })

  function notReady(): string | undefined {
    const { ready, pending, staged } = agent.state()
    if (isDraining()) return 'draining: the node is shutting down'
    return ready
      ? undefined
      : `waiting for the first complete read: ${staged} records read, ${pending ?? 'unknown'} pending`
  }

  async function metrics(): Promise<Record<string, number>> {
    const {
      ready,
      applied,
      records,
      unfinished,
      refused,
      refusedUpstreams,
      unresolvedNames,
      certificates,
      shutLimits,
    } = agent.state()
    return {
      gatehouse_edge_ready: ready && !isDraining() ? 1 : 0,
      gatehouse_edge_applied_generation: applied,
      gatehouse_edge_records: records,
      gatehouse_edge_unfinished_records: unfinished,
      gatehouse_edge_refusals: refused.records,
      gatehouse_edge_storage_failing: storage.fault() === undefined ? 0 : 1,
      gatehouse_edge_storage_failures_total: storage.failures(),
      gatehouse_edge_differences_total: differences.state().found,
      gatehouse_edge_differs: differences.state().since === null ? 0 : 1,
      ...agreementMetric(differences),
      gatehouse_edge_emergency_orders: emergencies.state().length,
      gatehouse_edge_shut_limits: shutLimits,
      gatehouse_edge_refused_upstreams: refusedUpstreams,
      gatehouse_edge_unresolved_names: unresolvedNames,
      gatehouse_edge_certificate_names: certificates.names,
      gatehouse_edge_missing_certificates: certificates.missing,
      gatehouse_edge_connected: link.isConnected() ? 1 : 0,
      ...clockMetric(link),
      ...Object.fromEntries(
        Object.entries(health.counts()).map(([status, count]) => [
          `gatehouse_edge_upstreams{status="${status}"}`,
          count,
        ]),
      ),
      gatehouse_edge_native_backends: natives().nativeBackends,
      gatehouse_edge_native_servers: natives().nativeServers,
      gatehouse_edge_retired_backends: natives().retiredBackends,
      gatehouse_edge_rule_hits_lost_total: ruleHits.lost(),
      gatehouse_log_lines_lost_total: lostLogLines(),
      ...requests.metrics(),
      ...(await frontendMetrics(settings)),
      ...(await usageMetrics(settings)),
    }
  }

  return serveStatus(listen, {
    ...{ status, notReady, warnings: () => warningsOf(node), metrics, more: requests.trafficMetrics },
    takeEmergency: emergencies.take,
  })
}

function warningsOf({ agent, link, storage, differences, emergencies }: Node): string[] {
  const [disk, nats, clock] = [storage.fault(), link.fault(), clockFaultOf(link)]
  const { shutLimits } = agent.state()
  return [
    ...(disk ? [`no changes are applied: ${disk}`] : []),
    ...(nats ? [`no changes arrive: ${nats}`] : []),
    ...(clock ? [clock] : []),
    ...(differences.state().since === null ? [] : ['another program changed HAProxy; the log names what']),
    ...(shutLimits > 0
      ? [`the number of nodes in the cell is not known: ${shutLimits} routes and TCP edges with a limit of it are shut`]
      : []),
    ...emergencies
      .state()
      .map(({ id, ranges, expiresAt }) => `emergency order ${id} refuses ${ranges} ranges until ${expiresAt}`),
    ...emergencies.unread().map((file) => `cannot read ${file}: emergency orders in it are not in force`),
  ]
}

const clockFaultOf = (link: Link): string | undefined => clockFault(link.clockOffset() ?? 0, 'NATS')

function clockMetric(link: Link): Record<string, number> {
  const offset = link.clockOffset()
  return offset === undefined ? {} : { gatehouse_edge_clock_offset_seconds: offset / 1_000 }
}

/** No metric before the first agreement: zero would look like a comparison long ago. */
function agreementMetric(differences: Pick<Differences, 'state'>): Record<string, number> {
  const { agreedAt } = differences.state()
  return agreedAt === null ? {} : { gatehouse_edge_agreement_timestamp_seconds: Date.parse(agreedAt) / 1_000 }
}

const maxTroubled = 50
/** From the node itself, because the control plane may be what is down. */
const troubled = (health: Health) =>
  Iterator.from(health.all())
    .filter(({ status }) => status === 'down' || status === 'failing')
    .take(maxTroubled)
    .toArray()

export async function edgeStatus(config: StatusListen): Promise<number> {
  const status = await askNode(config, '/status', {
    timeoutMs: 3_000,
    advice: "Check that 'gatehouse edge' is running on this machine.",
  })
  if (status === undefined) return 1
  console.log(JSON.stringify(status, null, 2))
  return 0
}
