import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { createAgent } from '../agent/agent.ts'
import { createProxy } from '../agent/haproxy/apply.ts'
import { difference, entriesOf, readyEntries } from '../agent/haproxy/entries.ts'
import { receiveEvents } from '../agent/haproxy/events.ts'
import { usageMetrics } from '../agent/haproxy/limits.ts'
import { type ProxySettings, policyFolder } from '../agent/haproxy/settings.ts'
import { requireHaproxy } from '../agent/haproxy/version.ts'
import { createHits } from '../agent/hits.ts'
import { openPolicyFiles } from '../agent/policy_files.ts'
import { createReceiver } from '../agent/receiver.ts'
import { openRecordLog } from '../agent/record_log.ts'
import { createReporter } from '../agent/reporter.ts'
import { serveStatus } from '../agent/status_server.ts'
import { openDns } from '../agent/upstreams/dns.ts'
import { createUpstreamPolicy, type OwnPorts } from '../agent/upstreams/policy.ts'
import { openResolver } from '../agent/upstreams/resolver.ts'
import { createUpstreams } from '../agent/upstreams/upstreams.ts'
import type { EdgeConfig } from '../config.ts'
import { inboxOf } from '../distribution/channels.ts'
import { connectNats, createNatsLink } from '../distribution/nats_connection.ts'
import type { RecordKey } from '../distribution/records.ts'
import { type TrustedKeys, trustedKeys } from '../distribution/signature.ts'
import { type Amount, ConfigError } from '../kernel/setting_values.ts'
import { version } from '../version.ts'
import { createLog, nextSignal, waitForShutdown } from './log.ts'

/** An edge node: serves from its own disk at once, and takes in changes as soon as NATS can be reached. */
export async function edge(config: EdgeConfig): Promise<number> {
  if (config.GATEHOUSE_NATS_URL.length === 0)
    throw new ConfigError('GATEHOUSE_NATS_URL is not set. An edge node needs NATS to receive its records')
  const log = createLog(config.GATEHOUSE_LOG_LEVEL)
  await requireHaproxy().catch((error) => {
    throw new ConfigError(error.message)
  })
  const keys = readTrustedKeys(config)
  const folder = config.GATEHOUSE_EDGE_FOLDER
  const settings = proxySettings(config)
  await mkdir(settings.folder, { recursive: true })
  const startedAt = new Date().toISOString()

  let receiver: ReturnType<typeof createReceiver> | undefined
  let reporter: ReturnType<typeof createReporter> | undefined
  const recordLog = await openRecordLog(folder)
  const policyFiles = await openPolicyFiles(policyFolder(settings), join(folder, 'pieces'), async (name) =>
    receiver?.fetchBlob(name),
  )
  const hits = createHits()
  const resolver = await openResolver({
    file: join(folder, 'addresses.json'),
    dns: await openDns({ servers: config.GATEHOUSE_EDGE_DNS_SERVERS }),
    onChange: (key) => agent.resolvedAnew(key as RecordKey),
    onError: (err) => log.error({ err }, 'cannot save upstream addresses; retrying'),
  })
  const upstreams = createUpstreams(
    resolver,
    createUpstreamPolicy({
      deny: config.GATEHOUSE_EDGE_UPSTREAM_DENY,
      allow: config.GATEHOUSE_EDGE_UPSTREAM_ALLOW,
      ownPorts: ownPorts(config),
    }),
  )
  const events = await receiveEvents(settings.eventPort, (event) => {
    hits.add({ ...event, count: 1, lastAt: new Date().toISOString() })
  })
  const proxy = createProxy(settings, { onTrouble: (err) => log.error({ err }, 'HAProxy problem') })
  const agent = createAgent(
    { log, recordLog, policyFiles, upstreams, openConnections: config.GATEHOUSE_EDGE_OPEN_CONNECTIONS },
    { ...proxy, entriesOf, readyEntries, difference },
    () => reporter?.soon(),
  )
  await proxy.start(await agent.load())

  const current = () => ({ node: config.GATEHOUSE_EDGE_NODE, version, startedAt, ...agent.state() })
  const nats = createNatsLink(config.GATEHOUSE_NATS_URL, (fault) =>
    fault ? log.warn(fault) : log.info({}, 'connected to NATS'),
  )
  let isDraining = false
  const status = await serveStatus(
    config.GATEHOUSE_EDGE_STATUS_LISTEN,
    () => ({ ...current(), connected: nats.isConnected(), natsFault: nats.fault() }),
    () => {
      const { ready, pending, staged } = agent.state()
      if (isDraining) return 'draining: the node is shutting down'
      return ready
        ? undefined
        : `waiting for the first complete read: ${staged} records read, ${pending ?? 'unknown'} pending`
    },
    async () => {
      const { ready, applied, records, unfinished, refusals, refusedUpstreams, unresolvedNames } = agent.state()
      return {
        gatehouse_edge_ready: ready && !isDraining ? 1 : 0,
        gatehouse_edge_applied_generation: applied,
        gatehouse_edge_records: records,
        gatehouse_edge_unfinished_records: unfinished,
        gatehouse_edge_refusals: refusals.length,
        gatehouse_edge_refused_upstreams: refusedUpstreams,
        gatehouse_edge_unresolved_names: unresolvedNames,
        gatehouse_edge_connected: nats.isConnected() ? 1 : 0,
        ...(await usageMetrics(settings)),
      }
    },
  )
  // The last to be said: whoever waits for it may ask the node how it is.
  log.info({ ...agent.state(), node: config.GATEHOUSE_EDGE_NODE, version }, 'serving from disk')

  const ending = new AbortController()
  const linked = link()
  async function link(): Promise<void> {
    const connection = await connectNats({
      servers: config.GATEHOUSE_NATS_URL,
      name: `gatehouse edge ${config.GATEHOUSE_EDGE_NODE}`,
      caFile: config.GATEHOUSE_NATS_CA_FILE,
      user: config.GATEHOUSE_NATS_USER,
      password: config.GATEHOUSE_NATS_PASSWORD,
      inboxPrefix: inboxOf(config.GATEHOUSE_EDGE_NODE),
      signal: ending.signal,
      link: nats,
    })
    receiver = createReceiver(connection, keys, agent)
    reporter = createReporter(connection, hits, current)
    ending.signal.addEventListener('abort', () => void connection.close())
    while (!ending.signal.aborted) {
      try {
        await receiver.followBucket(agent.state())
      } catch (err) {
        if (ending.signal.aborted) return
        log.warn({ reason: (err as Error).message }, 'cannot read the NATS bucket; retrying')
        await new Promise((resolve) => setTimeout(resolve, 500))
      }
    }
  }
  linked.catch((err) => ending.signal.aborted || log.error({ err }, 'the connection to NATS failed'))

  const signal = await waitForShutdown('SIGHUP')
  const leave = signal === 'SIGHUP'
  log.info(
    { signal },
    leave ? 'stopping; HAProxy keeps running for the next agent to attach to' : 'stopping together with HAProxy',
  )
  if (!leave) {
    isDraining = true
    // The agent goes on meanwhile: what changes while the node still accepts counts here, too.
    await proxy.drain({
      delayMs: config.GATEHOUSE_EDGE_DRAIN_DELAY_SECONDS * 1_000,
      deadlineMs: config.GATEHOUSE_EDGE_DRAIN_DEADLINE_SECONDS * 1_000,
      hurry: nextSignal(),
    })
    log.info({}, 'drained')
  }
  await reporter?.stop().catch(() => {})
  receiver?.stop()
  ending.abort()
  await resolver.stop()
  await agent.stop()
  status.close()
  await (leave ? proxy.detach() : proxy.stop())
  await events.close()
  await recordLog.close()
  return 0
}

export async function edgeStatus(config: Pick<EdgeConfig, 'GATEHOUSE_EDGE_STATUS_LISTEN'>): Promise<number> {
  const { host, port } = config.GATEHOUSE_EDGE_STATUS_LISTEN
  try {
    const response = await fetch(`http://${host.includes(':') ? `[${host}]` : host}:${port}/status`, {
      signal: AbortSignal.timeout(3_000),
    })
    console.log(JSON.stringify(await response.json(), null, 2))
    return 0
  } catch {
    console.error(
      `gatehouse: no edge node responds at ${host}:${port}. Check that 'gatehouse edge' is running on this machine.`,
    )
    return 1
  }
}

function readTrustedKeys(config: EdgeConfig): TrustedKeys {
  try {
    return trustedKeys(config.GATEHOUSE_EDGE_TRUSTED_KEYS)
  } catch (error) {
    throw new ConfigError(`GATEHOUSE_EDGE_TRUSTED_KEYS has ${(error as Error).message}`)
  }
}

/** Whatever listens there, at any address of this machine: no upstream is ever one of them. */
function ownPorts(config: EdgeConfig): OwnPorts {
  const https = config.GATEHOUSE_EDGE_HTTPS_LISTEN.map((at) => Number(at.slice(at.lastIndexOf(':') + 1)))
  const single = [...https, config.GATEHOUSE_EDGE_STATUS_LISTEN.port, config.GATEHOUSE_EDGE_EVENT_PORT]
  return [config.GATEHOUSE_TCP_PORTS, ...single.map((port) => ({ first: port, last: port }))]
}

function proxySettings(config: EdgeConfig): ProxySettings {
  const maxconn = config.GATEHOUSE_EDGE_MAX_CONNECTIONS
  const most = (amount: Amount) => ('count' in amount ? amount.count : Math.ceil((maxconn * amount.percent) / 100))
  const folder = join(config.GATEHOUSE_EDGE_FOLDER, 'haproxy')
  return {
    folder,
    tcpBind: {
      addresses: config.GATEHOUSE_EDGE_TCP_ADDRESSES.map((address) => address.replace(/^\[|\]$/g, '')),
      ...config.GATEHOUSE_TCP_PORTS,
    },
    httpsBind: config.GATEHOUSE_EDGE_HTTPS_LISTEN,
    certificateFolder: config.GATEHOUSE_EDGE_CERTIFICATES,
    runtimeSocket: join(folder, 'runtime.sock'),
    masterSocket: join(folder, 'master.sock'),
    eventPort: config.GATEHOUSE_EDGE_EVENT_PORT,
    threads: config.GATEHOUSE_EDGE_THREADS,
    caFile: config.GATEHOUSE_EDGE_UPSTREAM_CA_FILE,
    maxconn,
    limits: {
      perSource: most(config.GATEHOUSE_EDGE_MAX_CONNECTIONS_PER_SOURCE),
      perEdge: most(config.GATEHOUSE_EDGE_MAX_CONNECTIONS_PER_EDGE),
      perAccount: most(config.GATEHOUSE_EDGE_MAX_CONNECTIONS_PER_ACCOUNT),
      unlimitedSources: config.GATEHOUSE_EDGE_UNLIMITED_SOURCES,
    },
  }
}
