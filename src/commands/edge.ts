import { constants } from 'node:fs'
import { access, mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { createAgent } from '../agent/agent.ts'
import { type Credentials, openCredentials } from '../agent/disk/credentials.ts'
import { diskFiles, type Files } from '../agent/disk/files.ts'
import { type NodeKey, openNodeKey } from '../agent/disk/node_key.ts'
import { openPolicyFiles } from '../agent/disk/policy_files.ts'
import { openRecordLog } from '../agent/disk/record_log.ts'
import { probeStorage, watchStorage } from '../agent/disk/storage.ts'
import { type Emergencies, openEmergencies } from '../agent/emergencies.ts'
import { createProxy, type EdgeProxy } from '../agent/haproxy/apply.ts'
import { requireHaproxy } from '../agent/haproxy/process/version.ts'
import { type ProxySettings, policyFolder } from '../agent/haproxy/settings.ts'
import { createAllowed } from '../agent/reports/allowed.ts'
import { createDifferences, type Differences } from '../agent/reports/differences.ts'
import { createHealth, type Health } from '../agent/reports/health.ts'
import { createHits } from '../agent/reports/hits.ts'
import { certificateFault } from '../agent/upstreams/certificate_fault.ts'
import { openControlPlane } from '../agent/upstreams/control_plane.ts'
import { openDns } from '../agent/upstreams/dns.ts'
import { createFailures } from '../agent/upstreams/failures.ts'
import { createUpstreamPolicy } from '../agent/upstreams/policy.ts'
import { openResolver } from '../agent/upstreams/resolver.ts'
import { createUpstreams } from '../agent/upstreams/upstreams.ts'
import type { EdgeConfig } from '../config/config.ts'
import { version } from '../config/version.ts'
import type { RecordKey } from '../distribution/records.ts'
import { systemClock } from '../kernel/clock.ts'
import { ConfigError } from '../kernel/config_error.ts'
import type { Log } from '../kernel/log.ts'
import { systemTiming } from '../kernel/system_timing.ts'
import { createLink, type Link } from './edge_node/link.ts'
import { leaveReadOnlyFolder, proxyFolder } from './edge_node/proxy_folder.ts'
import { openRequests } from './edge_node/requests.ts'
import { openRuleCounting } from './edge_node/rule_counting.ts'
import { controlPlaneHosts, ownPorts, proxySettings, readTrustedKeys } from './edge_node/settings.ts'
import { requireStatusPort, serveNodeStatus } from './edge_node/status.ts'
import { createLog, nextSignal, waitForShutdown } from './log.ts'
import { requireNatsCa } from './nats_ca.ts'

type Substitutes = {
  /** For tests that make the disk fail. */
  files?: Files
  /** For tests that cannot wait a second each time. */
  retryMs?: number
}

/** An edge node: serves from its own disk immediately, and takes in changes once NATS is reachable. */
export async function edge(
  config: EdgeConfig,
  { files = diskFiles, retryMs = 1_000 }: Substitutes = {},
): Promise<number> {
  await requireNatsAndHaproxy(config)
  await requireStatusPort(config)
  const log = createLog(config.GATEHOUSE_LOG_LEVEL)
  const keys = readTrustedKeys(config, 'GATEHOUSE_EDGE_TRUSTED_KEYS')
  const settings = proxySettings(config, await proxyFolder(config, log))
  await requireFiles(config, settings.folder)
  const startedAt = new Date().toISOString()
  const storage = watchStorage(files, systemClock)
  const nodeKey = await openNodeKey(config.GATEHOUSE_EDGE_FOLDER, storage.files).catch((error) => {
    throw new ConfigError(error.message)
  })

  const link = createLink(config, log, await openJoined(config, storage.files, log))
  const seen = { hits: createHits(), allowed: createAllowed() }
  const counting = await openRuleCounting(config.GATEHOUSE_EDGE_FOLDER, settings, log, storage.files)
  const health = createHealth()
  const failures = createFailures(health, (upstream) => certificateFault(upstream, settings.caFile))
  const differences = createDifferences({ log, clock: systemClock, onChange: link.reportSoon })
  const { proxy, losses } = openProxy(settings, { log, health, differences, link, files: storage.files })
  const emergencies = await openOrders(config, { log, link, proxy, files: storage.files })
  const around = { settings, log, ...seen, failures, files: storage.files, onServerChange: proxy.serverChanged }
  const requests = await openRequests(config, around)
  const { agent, stop } = await openAgent(config, {
    ...{ log, link, proxy, health, nodeKey, retryMs, files: storage.files },
    policyFolder: policyFolder(settings),
    onApplied: (generation) => requests.applied(generation),
  })
  await proxy.start(inTurn(await agent.load(), emergencies.entries())).catch(inOneLine)
  await agent.loadCertificates()

  const current = () => ({
    node: config.GATEHOUSE_EDGE_NODE,
    version,
    startedAt,
    nodeKey: nodeKey.publicKey,
    ...agent.state(),
    storageFault: storage.fault(),
    differences: differences.state(),
    proxyLosses: losses(),
    emergencies: emergencies.state(),
  })
  let isDraining = false
  const node = {
    ...{ settings, agent, health, link, current, requests, storage, differences, emergencies },
    ruleHits: counting.hits,
    natives: proxy.natives,
    isDraining: () => isDraining,
  }
  const status = await serveNodeStatus(config, node)
  // Logged last: scripts that wait for this line query the node's status next.
  log.info({ ...agent.state(), node: config.GATEHOUSE_EDGE_NODE, version }, 'serving from disk')
  const stopProbing = probeStorage(storage, config.GATEHOUSE_EDGE_FOLDER, systemTiming)
  link.start({ keys, agent, ...seen, ruleHits: counting.hits, health, requests, current })

  const leave = await waitToLeave(log)
  if (!leave) {
    isDraining = true
    await drain(config, proxy)
    log.info({}, 'drained')
  }
  await requests.seen.stop()
  await link.stop()
  await counting.stop()
  stopProbing()
  await emergencies.stop()
  await stop()
  status.close()
  await (leave ? proxy.detach() : proxy.stop())
  await requests.close()
  failures.stop()
  return 0
}

/** Resolves when the agent has to exit: true if HAProxy keeps running. */
async function waitToLeave(log: Log): Promise<boolean> {
  const signal = await waitForShutdown('SIGHUP')
  const leave = signal === 'SIGHUP'
  log.info(
    { signal },
    leave ? 'stopping; HAProxy keeps running for the next agent to attach to' : 'stopping together with HAProxy',
  )
  return leave
}

/** Yields without a copy, because there may be a million items. */
function* inTurn<Item>(...lists: Iterable<Item>[]): Generator<Item> {
  for (const list of lists) yield* list
}

type OrderParts = { log: Log; link: Link; proxy: EdgeProxy; files: Files }

const openOrders = (config: EdgeConfig, { log, link, proxy, files }: OrderParts): Promise<Emergencies> =>
  openEmergencies({
    ...{ log, proxy, files, timing: systemTiming },
    folder: join(config.GATEHOUSE_EDGE_FOLDER, 'emergencies'),
    keys: readTrustedKeys(config, 'GATEHOUSE_EDGE_EMERGENCY_KEYS'),
    cell: config.GATEHOUSE_EDGE_CELL,
    onChange: link.reportSoon,
  })

type Observers = { log: Log; health: Health; differences: Differences; link: Link; files: Files }

/** `losses`: number of unexpected exits of HAProxy. */
function openProxy(settings: ProxySettings, { log, health, differences, link, files }: Observers) {
  let losses = 0
  const proxy = createProxy(settings, {
    onLost: () => {
      losses++
      link.reportSoon()
    },
    onTrouble: (err) => log.error({ err }, 'HAProxy problem'),
    onHealth: health.observe,
    onDown: () => void leaveReadOnlyFolder(settings.folder, log),
    onDifferences: differences.note,
    onAgreement: differences.agree,
    files,
  })
  return { proxy, losses: () => losses }
}

/** Undefined for a node with a NATS password only. */
async function openJoined(config: EdgeConfig, files: Files, log: Log): Promise<Credentials | undefined> {
  const file = config.GATEHOUSE_NATS_CREDENTIALS_FILE
  if (file === '') return undefined
  const parts = { file, node: config.GATEHOUSE_EDGE_NODE, files, timing: systemTiming, log }
  return openCredentials(parts).catch((error) => {
    throw new ConfigError(`GATEHOUSE_NATS_CREDENTIALS_FILE: ${error.message}`)
  })
}

async function requireNatsAndHaproxy(config: EdgeConfig): Promise<void> {
  if (config.GATEHOUSE_NATS_URL.length === 0)
    throw new ConfigError('GATEHOUSE_NATS_URL is not set. An edge node needs NATS to receive its records')
  requireNatsCa(config.GATEHOUSE_NATS_CA_FILE)
  await requireHaproxy().catch((error) => {
    throw new ConfigError(error.message)
  })
}

/** Checks files early, for which HAProxy would print a page of text, or the agent a stack trace. */
async function requireFiles(config: EdgeConfig, folder: string): Promise<void> {
  const caFile = config.GATEHOUSE_EDGE_UPSTREAM_CA_FILE
  await access(caFile, constants.R_OK).catch(({ message }) => {
    throw new ConfigError(`GATEHOUSE_EDGE_UPSTREAM_CA_FILE is ${caFile}, which cannot be read: ${message}`)
  })
  await mkdir(folder, { recursive: true }).catch(({ message }) => {
    throw new ConfigError(
      `GATEHOUSE_EDGE_FOLDER is ${config.GATEHOUSE_EDGE_FOLDER}, which cannot be written to: ${message}`,
    )
  })
}

/**
 * Keeps only HAProxy's first alert, which has the reason that the operator can act on, without its position in a
 * generated file.
 */
function inOneLine(error: Error): never {
  const { message } = error
  if (!/cannot bind socket|Cannot raise FD limit/i.test(message)) throw error
  const [, why = message] = /\[ALERT\].*?: (?:Binding \S+ for \w+ \S+: )?(.*)/.exec(message) ?? []
  const line = `HAProxy did not start: ${why.trim()} 'gatehouse doctor' ('gatehouse-edge doctor' on a node) says what to do`
  // A port may become free, and an address may come up, so the service manager retries.
  if (/Address already in use|Cannot assign requested address/i.test(why))
    throw Object.assign(new Error(line), { code: 'EADDRINUSE' })
  throw new ConfigError(line)
}

type Around = {
  log: Log
  link: Link
  proxy: EdgeProxy
  health: Health
  policyFolder: string
  nodeKey: NodeKey
  files: Files
  retryMs: number
  onApplied: (generation: number) => void
}

/**
 * Resolves the hosts of NATS with the system's servers, and tenants' names with the configured ones: each may return
 * other addresses.
 */
const controlPlaneDns = (servers: readonly string[]) =>
  Promise.all([[], ...(servers.length > 0 ? [servers] : [])].map((each) => openDns({ servers: each, families: 'all' })))

/** Opens the agent with everything that it stores on disk. */
async function openAgent(
  config: EdgeConfig,
  { log, link, proxy, health, policyFolder, nodeKey, files, retryMs, onApplied }: Around,
) {
  const folder = config.GATEHOUSE_EDGE_FOLDER
  const recordLog = await openRecordLog(folder, files)
  const resolver = await openResolver({
    files,
    file: join(folder, 'addresses.json'),
    dns: await openDns({ servers: config.GATEHOUSE_EDGE_DNS_SERVERS }),
    onChange: (key) => agent.addressChanged(key as RecordKey),
    onError: (err) => log.error({ err }, 'cannot save upstream addresses; retrying'),
  })
  const controlPlane = await openControlPlane({
    files,
    hosts: controlPlaneHosts(config),
    file: join(folder, 'control_plane.json'),
    dns: await controlPlaneDns(config.GATEHOUSE_EDGE_DNS_SERVERS),
    onUnresolved: (host) =>
      log.warn(
        { host },
        'cannot resolve a host of the control plane; until then its addresses may be dialed for tenants',
      ),
    onError: (err) => log.error({ err }, 'cannot save addresses of the control plane; retrying'),
  })
  const policy = createUpstreamPolicy({
    deny: config.GATEHOUSE_EDGE_UPSTREAM_DENY,
    allow: config.GATEHOUSE_EDGE_UPSTREAM_ALLOW,
    ownPorts: ownPorts(config),
    services: controlPlane.services,
  })
  const agent = createAgent(
    {
      log,
      timing: systemTiming,
      recordLog,
      policyFiles: await openPolicyFiles(policyFolder, join(folder, 'pieces'), link.fetchBlob, files),
      upstreams: createUpstreams(resolver, policy),
      health,
      openConnections: config.GATEHOUSE_EDGE_OPEN_CONNECTIONS,
      node: config.GATEHOUSE_EDGE_NODE,
      nodeKey,
      names: proxy.names,
      hasRecord: link.hasRecord,
      readAgain: link.readAgain,
      retryMs,
    },
    proxy,
    () => {
      onApplied(agent.state().applied)
      link.reportSoon()
    },
  )
  onApplied(agent.state().applied)
  const stop = async () => {
    await controlPlane.stop()
    await resolver.stop()
    await agent.stop()
    await recordLog.close()
  }
  return { agent, stop }
}

/** The agent keeps running during the drain, so that changes still apply while the node accepts requests. */
const drain = (config: EdgeConfig, proxy: EdgeProxy): Promise<void> =>
  proxy.drain({
    delayMs: config.GATEHOUSE_EDGE_DRAIN_DELAY_SECONDS * 1_000,
    deadlineMs: config.GATEHOUSE_EDGE_DRAIN_DEADLINE_SECONDS * 1_000,
    hurry: nextSignal(),
  })
