import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { chown, mkdir, stat } from 'node:fs/promises'
import { hostname } from 'node:os'
import { dirname, join } from 'node:path'
import { parseArgs } from 'node:util'
import { diskFiles, writeAtomically } from '../../agent/disk/files.ts'
import { openNodeKey } from '../../agent/disk/node_key.ts'
import { credentialsText } from '../../distribution/credentials_file.ts'
import { type NatsKey, natsKeyOf, newNatsKey } from '../../fleet/nats_jwt.ts'
import { ConfigError } from '../../kernel/config_error.ts'
import { nodeNameFlag } from '../node_name.ts'

const options = {
  token: { type: 'string' },
  name: { type: 'string' },
  settings: { type: 'string', default: '/etc/gatehouse-edge/joined.env' },
} as const
const unit = 'gatehouse-edge.service'
const timeoutMs = 30_000

/** What the control plane answers to a node that joins. */
type Place = {
  name: string
  nats_jwt: string
  nats_servers: string[]
  nats_ca_pem: string | null
  nats_in_operator_mode: boolean
  trusted_keys: string[]
  tcp_ports: string
}

/** Makes this machine an edge node. Private keys are made here and stay here. Run again, it continues where it failed. */
export async function edgeJoin(args: string[], folder: string): Promise<number> {
  const { values, positionals } = parseArgs({ args, options, allowPositionals: true })
  const [address, ...more] = positionals
  const token = values.token ?? process.env.GATEHOUSE_JOIN_TOKEN
  if (!address || more.length > 0 || !token) throw new ConfigError('usage: gatehouse edge join URL --token TOKEN')
  const url = joinUrl(address)
  const files = filesIn(folder, values.settings)
  if (existsSync(files.credentials))
    throw new ConfigError(
      `this machine has joined already. To join again, revoke the node on the control plane and delete ${files.credentials}`,
    )
  await mkdir(folder, { recursive: true, mode: 0o700 })
  const key = await pendingKey(files.pending)
  const nodeKey = await openNodeKey(folder)
  const place = await ask(url, {
    token,
    name: nodeNameFlag((values.name ?? hostname()).toLowerCase()),
    nats_user: key.publicKey,
    node_key: nodeKey.publicKey,
  })
  if (place.nats_ca_pem !== null) await writeAtomically(diskFiles, files.ca, [place.nats_ca_pem], 0o644)
  await writeAtomically(diskFiles, files.settings, [settingsText(place, files, url)], 0o600)
  // Last: it says that the node has joined.
  await writeAtomically(diskFiles, files.credentials, [credentialsText({ jwt: place.nats_jwt, seed: key.seed })], 0o600)
  await diskFiles.remove(files.pending)
  await giveToOwner(folder, [files.credentials, join(folder, 'node.key')])
  console.log(`joined as ${place.name}; settings are in ${files.settings}`)
  if (!place.nats_in_operator_mode)
    console.log(
      'NATS still has its users in a configuration file: until it is in operator mode, the node needs a password',
    )
  startService()
  return 0
}

const filesIn = (folder: string, settings: string) => ({
  settings,
  ca: join(dirname(settings), 'joined-nats-ca.pem'),
  credentials: join(folder, 'nats.creds'),
  pending: join(folder, 'join.key'),
})
type JoinFiles = ReturnType<typeof filesIn>

function joinUrl(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (!url || !/^https?:$/.test(url.protocol))
    throw new ConfigError('URL must be that of the control plane, such as https://control.example')
  const isLocal = ['localhost', '127.0.0.1', '[::1]'].includes(url.hostname)
  if (url.protocol === 'http:' && !isLocal)
    throw new ConfigError('URL must begin with https://: the token would be sent in clear')
  return new URL(`${url.href.replace(/\/$/, '')}/edge_nodes/join`)
}

/** Kept until the control plane has answered: the same node may ask again with the same key, and no other. */
async function pendingKey(file: string): Promise<NatsKey> {
  const text = (await diskFiles.read(file))?.toString().trim()
  if (text) return natsKeyOf(text)
  const key = newNatsKey('user')
  await writeAtomically(diskFiles, file, [`${key.seed}\n`], 0o600)
  return key
}

async function ask(url: URL, body: object): Promise<Place> {
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify(body),
    signal: AbortSignal.timeout(timeoutMs),
  }).catch((error: Error) => {
    const cause = error.cause instanceof Error ? error.cause.message : error.message
    throw new ConfigError(`${url.origin} does not answer: ${cause}. The token is still valid; try again`)
  })
  const answer = (await response.json().catch(() => ({}))) as Place & { msg?: string }
  if (response.ok) return answer
  throw new ConfigError(`${url.origin} refused: ${answer.msg ?? `status ${response.status}`}`)
}

const settingsText = (place: Place, { ca, credentials }: JoinFiles, url: URL): string =>
  Object.entries({
    GATEHOUSE_EDGE_NODE: place.name,
    GATEHOUSE_EDGE_TRUSTED_KEYS: place.trusted_keys.join(','),
    GATEHOUSE_EDGE_CONTROL_PLANE_HOSTS: url.hostname.replace(/^\[|\]$/g, ''),
    GATEHOUSE_TCP_PORTS: place.tcp_ports,
    GATEHOUSE_NATS_URL: place.nats_servers.join(','),
    ...(place.nats_ca_pem !== null && { GATEHOUSE_NATS_CA_FILE: ca }),
    GATEHOUSE_NATS_CREDENTIALS_FILE: credentials,
  }).reduce((text, [name, value]) => `${text}${name}=${value}\n`, '# Made by gatehouse edge join.\n')

/** The service runs under a user of its own, and this command as root. */
async function giveToOwner(folder: string, files: readonly string[]): Promise<void> {
  if (process.getuid?.() !== 0) return
  const { uid, gid } = await stat(folder)
  for (const file of files) await chown(file, uid, gid)
}

function startService(): void {
  if (!existsSync('/run/systemd/system') || !existsSync(`/lib/systemd/system/${unit}`)) {
    console.log('Start the node with these settings: gatehouse edge')
    return
  }
  execFileSync('systemctl', ['enable', '--quiet', unit], { stdio: 'inherit' })
  execFileSync('systemctl', ['restart', unit], { stdio: 'inherit' })
  console.log(`${unit} is running`)
}
