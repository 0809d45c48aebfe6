import { type Connection, call } from '../call.ts'
import { Failure } from '../exits.ts'
import { printable } from '../output/terminal.ts'
import { type ClientConfig, chooseProfile } from '../profiles.ts'
import { send, textOf } from '../transport.ts'
import { type Part, resourceParts, type Status, unspecified } from './status_resources.ts'

/** What runs on this machine, judging by its files. */
export type LocalParts = {
  readonly agentUrl: string
  readonly hasAgent: boolean
  readonly apiUrl: string
  readonly hasControlPlane: boolean
}

const timeoutMs = 5_000

/** Every part that this machine can query. A part that does not answer does not hide the others. */
export async function examine(config: ClientConfig, local: LocalParts, profile: string | undefined): Promise<Part[]> {
  const connection = connectionOf(config, local, profile)
  const [ofApi, ofAgent] = await Promise.all([connection ? examineApi(connection) : [], examineAgent(local)])
  return [...ofApi, ...ofAgent]
}

/** Undefined on a machine that has only an edge node and no configured server. */
function connectionOf(
  config: ClientConfig,
  { apiUrl, hasControlPlane, hasAgent }: LocalParts,
  profile: string | undefined,
): Connection | undefined {
  try {
    return { ...chooseProfile(config, profile), timeoutMs, verbose: false }
  } catch (error) {
    const isConfigured = profile || config.GATEHOUSE_URL || config.GATEHOUSE_API_KEY || config.GATEHOUSE_PROFILE
    if (isConfigured || !(hasControlPlane || hasAgent)) throw error
    return hasControlPlane ? { url: apiUrl, token: '', timeoutMs, verbose: false } : undefined
  }
}

type Got = { code: number; text: string } | { fault: string }

/** Sent without the token: probes and metrics need none. */
async function get(url: string): Promise<Got> {
  const signal = AbortSignal.timeout(timeoutMs)
  try {
    const response = await send(url, { method: 'GET', headers: {}, signal })
    return { code: response.statusCode ?? 0, text: await textOf(response) }
  } catch (error) {
    const { message, code } = error as { message?: string; code?: string }
    return { fault: signal.aborted ? `no answer within ${timeoutMs / 1_000} s` : message || code || 'no reason given' }
  }
}

function json(text: string): Record<string, unknown> {
  try {
    return JSON.parse(text) ?? {}
  } catch {
    return {}
  }
}

async function examineApi(connection: Connection): Promise<Part[]> {
  const [ready, metrics, nodes, resources] = await Promise.all([
    get(`${connection.url}/readyz`),
    get(`${connection.url}/metrics`),
    askForNodes(connection),
    connection.token ? resourceParts(connection) : [],
  ])
  return [
    apiPart(connection.url, ready),
    publisherPart(metrics, nodes),
    ...nodeParts(nodes),
    certificatePart(nodes),
    ...resources,
    ...backupPart(metrics),
  ]
}

const list = (value: unknown): string =>
  Array.isArray(value) ? value.map((each) => printable(`${each}`)).join('. ') : ''

function apiPart(url: string, ready: Got): Part {
  const part = 'API'
  if ('fault' in ready) return { part, status: 'down', message: `${url} cannot be reached: ${ready.fault}` }
  const { status, faults, warnings } = json(ready.text)
  if (status === 'not ready') return { part, status: 'down', message: `${url} is not ready: ${list(faults)}` }
  if (status !== 'ready')
    return { part, status: 'unknown', message: `${url}/readyz answered ${ready.code}, and not as Gatehouse does` }
  return warnings
    ? { part, status: 'warning', message: `${url} is ready. ${list(warnings)}` }
    : { part, status: 'up', message: `${url} is ready` }
}

type Node = {
  name: string
  live: boolean
  applied_generation: number
  version: string
  certificates: {
    names: number
    unusable: number
    missing_names: number | null
    first_expires_at: string | null
  } | null
  status?: Status
}
type Nodes = { newest: number; nodes: Node[] } | { fault: string }

async function askForNodes(connection: Connection): Promise<Nodes> {
  if (!connection.token)
    return { fault: "no API key: run 'gatehouse login', or set GATEHOUSE_URL and GATEHOUSE_API_KEY of an admin" }
  try {
    const { text } = await call(connection, { method: 'GET', path: '/edge_nodes' })
    const { newest_generation: newest, edge_nodes: nodes } = JSON.parse(text)
    return { newest, nodes }
  } catch (error) {
    if (!(error instanceof Failure)) throw error
    return { fault: error.message }
  }
}

/** Undefined if there is no such metric, or metrics cannot be read. */
const valueIn = (metrics: Got, name: string): number | undefined => valuesIn(metrics, name)[0]

/** The values of a metric, for all of its labels. */
function valuesIn(metrics: Got, name: string): number[] {
  const text = 'text' in metrics ? metrics.text : ''
  const found = text.matchAll(new RegExp(`^${name}(?:\\{[^}]*\\})? (\\S+)$`, 'gm'))
  return [...found].map(([, value]) => Number(value))
}

function publisherPart(metrics: Got, nodes: Nodes): Part {
  const part = 'publisher'
  const value = (name: string) => valueIn(metrics, name)
  if (value('gatehouse_build_info') === undefined)
    return { part, status: 'unknown', message: 'the metrics of the API cannot be read from here' }
  if (value('gatehouse_nats_connected') === undefined)
    return { part, status: 'up', message: 'none: this installation has no NATS, and so no edges' }
  if (value('gatehouse_nats_connected') === 0)
    return { part, status: 'down', message: 'not connected to NATS: edge nodes keep what they have' }
  const behind = Math.max(0, ...valuesIn(metrics, 'gatehouse_publisher_generations_behind'))
  const cells = valuesIn(metrics, 'gatehouse_publisher_active')
  const active = cells.filter((isActive) => isActive === 1).length
  const where = active < cells.length ? `active in ${active} of ${cells.length} cells` : 'active'
  if (active > 0)
    return behind > 0
      ? { part, status: 'warning', message: `${where}, ${behind} generations behind` }
      : { part, status: 'up', message: `${where}, nothing left to publish` }
  // Another process publishes, or none does. Generations that have arrived on a node were published.
  const hasArrived =
    'nodes' in nodes && nodes.nodes.some(({ live, applied_generation }) => live && applied_generation >= nodes.newest)
  return hasArrived
    ? { part, status: 'up', message: 'on standby here; a node has the newest change' }
    : { part, status: 'unknown', message: 'on standby here, and whether another process publishes is not known' }
}

function nodeParts(nodes: Nodes): Part[] {
  const part = 'edge nodes'
  if ('fault' in nodes) return [{ part, status: 'unknown', message: nodes.fault }]
  const live = nodes.nodes.filter((node) => node.live).length
  if (nodes.nodes.length === 0) return [{ part, status: 'warning', message: 'no node has reported yet' }]
  const each = nodes.nodes.map(({ name, applied_generation, version, status = unspecified }): Part => {
    const about = `generation ${applied_generation}, version ${printable(version)}`
    return { part, name, status: status.state, message: `${printable(status.reason)} (${about})` }
  })
  const status = live < nodes.nodes.length ? 'down' : 'up'
  return [{ part, status, message: `${live} of ${nodes.nodes.length} live` }, ...each]
}

const dayMs = 24 * 60 * 60 * 1_000
const soonMs = 14 * dayMs

function certificatePart(nodes: Nodes): Part {
  const part = 'certificates'
  const known =
    'nodes' in nodes ? nodes.nodes.filter(({ live }) => live).flatMap((node) => node.certificates ?? []) : []
  if (known.length === 0) return { part, status: 'unknown', message: 'no live node says what it serves' }
  const expiries = known.flatMap(({ first_expires_at }) => first_expires_at ?? [])
  const [first] = expiries.sort((one, other) => Date.parse(one) - Date.parse(other))
  if (first === undefined) return { part, status: 'up', message: 'no node has one' }
  const names = Math.max(...known.map((each) => each.names))
  const left = Date.parse(first) - Date.now()
  if (left <= 0) return { part, status: 'down', message: `${names} names; the first expired at ${first}` }
  const message = `${names} names; the first expires at ${first}`
  return { part, status: left < soonMs ? 'warning' : 'up', message }
}

/** As in the alert rule. */
const maxBackupAgeMs = 2 * dayMs

/** Omitted for an older control plane without this metric. */
function backupPart(metrics: Got): Part[] {
  const part = 'backup'
  const seconds = valueIn(metrics, 'gatehouse_backup_timestamp_seconds')
  if (seconds === undefined) return []
  if (seconds === 0) return [{ part, status: 'warning', message: "'gatehouse backup' has made none yet" }]
  const at = new Date(seconds * 1_000)
  const isOld = Date.now() - at.getTime() > maxBackupAgeMs
  return [{ part, status: isOld ? 'warning' : 'up', message: `the newest is of ${at.toISOString()}` }]
}

/** Queries the agent on this machine, which answers even if the control plane does not. */
async function examineAgent({ agentUrl, hasAgent }: LocalParts): Promise<Part[]> {
  const part = 'this machine'
  const [got, ready] = await Promise.all([get(`${agentUrl}/status`), get(`${agentUrl}/readyz`)])
  const { node, applied, connected, natsFault, storageFault, clockFault, differences, refused } = json(
    'text' in got ? got.text : '',
  )
  if (typeof node !== 'string') {
    if (!hasAgent) return []
    const reason = 'fault' in got ? got.fault : `it answers ${got.code}`
    return [{ part, status: 'down', message: `no edge node responds at ${agentUrl}: ${reason}` }]
  }
  const records = (refused as { records?: unknown } | undefined)?.records
  const notReady = 'text' in ready ? json(ready.text).reason : ready.fault
  const wrong = [
    ...(notReady ? [`not ready: ${notReady}`] : []),
    ...(connected === true ? [] : [`not connected to NATS${natsFault ? `: ${natsFault}` : ''}`]),
    ...(storageFault ? [`cannot write to its disk: ${storageFault}`] : []),
    ...(clockFault ? [`${clockFault}`] : []),
    ...((differences as { since?: unknown } | undefined)?.since
      ? ['another program changed its HAProxy; the log names what']
      : []),
    ...(records ? [`rejected ${records} records`] : []),
  ]
  const message = wrong.length > 0 ? `${node}: ${wrong.join(', ')}` : `${node} is ready, generation ${applied}`
  return [{ part, status: wrong.length > 0 ? 'down' : 'up', message: printable(message) }]
}
