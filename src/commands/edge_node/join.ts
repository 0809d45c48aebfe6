import { existsSync } from 'node:fs'
import { chown, mkdir, stat } from 'node:fs/promises'
import { hostname } from 'node:os'
import { dirname, join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { getCACertificates, setDefaultCACertificates } from 'node:tls'
import { parseArgs } from 'node:util'
import { diskFiles, writeAtomically } from '../../agent/disk/files.ts'
import { openNodeKey } from '../../agent/disk/node_key.ts'
import { requireHaproxy } from '../../agent/haproxy/process/version.ts'
import { readEdgeStatusConfig, readEnvironmentFile, readJoinToken } from '../../config/config.ts'
import { credentialsText } from '../../distribution/credentials_file.ts'
import { type NatsKey, natsKeyOf, newNatsKey } from '../../fleet/nats_jwt.ts'
import { ConfigError } from '../../kernel/config_error.ts'
import { nodeNameFlag } from '../node_name.ts'
import { readyUrl, startUnit } from '../start_unit.ts'

const options = {
  token: { type: 'string' },
  name: { type: 'string' },
  settings: { type: 'string', default: '/etc/gatehouse-edge/joined.env' },
  'allow-http': { type: 'boolean', default: false },
  'if-needed': { type: 'boolean', default: false },
} as const
const unit = 'gatehouse-edge.service'
const timeoutMs = 30_000

type Place = {
  name: string
  cell: string
  /** Absent from control planes before 0.3. */
  wave?: number
  nats_jwt: string
  nats_servers: string[]
  nats_ca_pem: string | null
  nats_in_operator_mode: boolean
  trusted_keys: string[]
  /** Absent from control planes before 0.3. */
  emergency_keys?: string[]
  tcp_ports: string
  control_plane_hosts: string[]
}

/** Makes this machine an edge node, and starts it. A second run continues where the first one failed. */
export async function edgeJoin(args: string[], folder: string): Promise<number> {
  const { values, positionals } = parseArgs({ args, options, allowPositionals: true })
  const [address, ...more] = positionals
  if (!address || more.length > 0) throw new ConfigError('usage: gatehouse edge join URL --token TOKEN')
  if (values['if-needed'] && existsSync(credentialsFile(folder))) {
    console.log('this machine has joined already')
    return 0
  }
  const token = values.token ?? readJoinToken()
  const hasUnit = existsSync('/run/systemd/system') && existsSync(`/lib/systemd/system/${unit}`)
  if (hasUnit) await requireToStart()
  const { settings } = values
  const name = (values.name ?? hostname()).toLowerCase()
  const order = { address, token, name, folder, settings, allowHttp: values['allow-http'] }
  const place = await (values['if-needed'] ? joinPatiently(order) : joinNode(order))
  console.log(`joined as ${place.name}; settings are in ${settings}`)
  if (!place.nats_in_operator_mode)
    console.log(
      'NATS still has its users in a configuration file: until it is in operator mode, the node needs a password',
    )
  if (!hasUnit) {
    console.log('Start the node with these settings: gatehouse edge')
    return 0
  }
  await startUnit(unit, () => statusUrl(settings))
  console.log(`${unit} is running, and ready for traffic`)
  return 0
}

/** Runs before the token is used. */
async function requireToStart(): Promise<void> {
  if (process.getuid?.() !== 0) throw new ConfigError('join writes /etc and starts a service. Run it as root')
  await requireHaproxy().catch((error) => {
    throw new ConfigError(error.message)
  })
}

function statusUrl(settings: string): string {
  const own = join(dirname(settings), 'edge.env')
  return readyUrl(readEdgeStatusConfig(existsSync(own) ? readEnvironmentFile(own) : {}).GATEHOUSE_EDGE_STATUS_LISTEN)
}

export type Order = {
  address: string
  token: string
  /** Used unless the token has a name. */
  name: string
  folder: string
  settings: string
  /** Allows HTTP for a control plane on the same machine. */
  allowHttp?: boolean
  /** NATS addresses to use instead of those from the control plane. */
  natsServers?: string[]
}

const patienceMs = 60_000
/** The control plane limits attempts by address, and a whole fleet may join from behind one address. */
const crowdPatienceMs = 600_000

/** Retries, because the control plane may still be starting. */
export async function joinPatiently(order: Order): Promise<Place> {
  for (const deadline = Date.now() + patienceMs; ; await setTimeout(500))
    try {
      return await joinNode(order)
    } catch (error) {
      if (!(error instanceof JoinLater) || Date.now() > deadline) throw error
    }
}

/** Exchanges the token for a place in the fleet. Private keys are created here and never leave this machine. */
export async function joinNode(order: Order): Promise<Place> {
  const { address, token, folder } = order
  const url = joinUrl(address, order.allowHttp)
  const files = filesIn(folder, order.settings)
  if (existsSync(files.credentials))
    throw new ConfigError(
      `this machine has joined already. To join again, revoke the node on the control plane and delete ${files.credentials}`,
    )
  await mkdir(folder, { recursive: true, mode: 0o700 })
  const key = await pendingKey(files.pending)
  const nodeKey = await openNodeKey(folder)
  const answer = await ask(url, {
    token,
    name: nodeNameFlag(order.name),
    nats_user: key.publicKey,
    node_key: nodeKey.publicKey,
  })
  const place = { ...answer, nats_servers: order.natsServers ?? answer.nats_servers }
  if (place.nats_ca_pem !== null) await writeAtomically(diskFiles, files.ca, [place.nats_ca_pem], 0o644)
  await writeAtomically(diskFiles, files.settings, [settingsText(place, files, url)], 0o600)
  // Written last: its existence means that the node has joined.
  await writeAtomically(diskFiles, files.credentials, [credentialsText({ jwt: place.nats_jwt, seed: key.seed })], 0o600)
  await diskFiles.remove(files.pending)
  await giveToOwner(folder, [files.credentials, join(folder, 'node.key')])
  return place
}

const filesIn = (folder: string, settings: string) => ({
  settings,
  ca: join(dirname(settings), 'joined-nats-ca.pem'),
  credentials: credentialsFile(folder),
  pending: join(folder, 'join.key'),
})
type JoinFiles = ReturnType<typeof filesIn>

/** Exists once the node has joined. */
export const credentialsFile = (folder: string): string => join(folder, 'nats.creds')

function joinUrl(text: string, allowHttp = false): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (!url || !/^https?:$/.test(url.protocol))
    throw new ConfigError('URL must be that of the control plane, such as https://control.example')
  const isLocal = ['localhost', '127.0.0.1', '[::1]'].includes(url.hostname)
  if (url.protocol === 'http:' && !isLocal && !allowHttp)
    throw new ConfigError('URL must begin with https://: the token would be sent in clear')
  return new URL(`${url.href.replace(/\/$/, '')}/edge_nodes/join`)
}

/** Stored until the control plane has replied: the node may ask again with the same key, but with no other. */
async function pendingKey(file: string): Promise<NatsKey> {
  const text = (await diskFiles.read(file))?.toString().trim()
  if (text) return natsKeyOf(text)
  const key = newNatsKey('user')
  await writeAtomically(diskFiles, file, [`${key.seed}\n`], 0o600)
  return key
}

/** The control plane cannot answer now, and may later. The token is still valid. */
export class JoinLater extends ConfigError {}

async function ask(url: URL, body: object): Promise<Place> {
  // An installation inside a company has a certificate of its authority, which the machine trusts and Node does not.
  setDefaultCACertificates([...getCACertificates('default'), ...getCACertificates('system')])
  for (const deadline = Date.now() + crowdPatienceMs; ; ) {
    const response = await post(url, body)
    const answer = (await response.json().catch(() => ({}))) as Place & { msg?: string }
    if (response.ok) return answer
    const waitMs = Number(response.headers.get('retry-after')) * 1_000 * (1 + Math.random())
    const fault = `${url.origin} refused: ${answer.msg ?? `status ${response.status}`}`
    if (response.status === 503) throw new JoinLater(fault)
    if (response.status !== 429 || Date.now() + waitMs > deadline) throw new ConfigError(fault)
    await setTimeout(waitMs)
  }
}

const post = (url: URL, body: object): Promise<Response> =>
  fetch(url, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify(body),
    signal: AbortSignal.timeout(timeoutMs),
  }).catch((error: Error) => {
    const cause = error.cause instanceof Error ? error.cause.message : error.message
    throw new JoinLater(`${url.origin} does not answer: ${cause}. The token is still valid; try again`)
  })

function settingsText(place: Place, { ca, credentials }: JoinFiles, url: URL): string {
  const hosts = new Set([url.hostname.replace(/^\[|\]$/g, ''), ...place.control_plane_hosts])
  return Object.entries({
    GATEHOUSE_EDGE_NODE: place.name,
    GATEHOUSE_EDGE_CELL: place.cell,
    ...(place.wave && { GATEHOUSE_EDGE_WAVE: place.wave }),
    GATEHOUSE_EDGE_TRUSTED_KEYS: place.trusted_keys.join(','),
    ...(place.emergency_keys?.length && { GATEHOUSE_EDGE_EMERGENCY_KEYS: place.emergency_keys.join(',') }),
    GATEHOUSE_EDGE_CONTROL_PLANE_HOSTS: [...hosts].join(','),
    GATEHOUSE_TCP_PORTS: place.tcp_ports,
    GATEHOUSE_NATS_URL: place.nats_servers.join(','),
    ...(place.nats_ca_pem !== null && { GATEHOUSE_NATS_CA_FILE: ca }),
    GATEHOUSE_NATS_CREDENTIALS_FILE: credentials,
  }).reduce((text, [name, value]) => `${text}${name}=${value}\n`, '# Made by gatehouse edge join.\n')
}

/** The service runs as its own user, and this command as root. */
async function giveToOwner(folder: string, files: readonly string[]): Promise<void> {
  if (process.getuid?.() !== 0) return
  const { uid, gid } = await stat(folder)
  for (const file of files) await chown(file, uid, gid)
}
