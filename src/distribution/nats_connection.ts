import { createPrivateKey, type KeyObject, sign } from 'node:crypto'
import { isIP } from 'node:net'
import { setTimeout } from 'node:timers/promises'
import { checkServerIdentity, type PeerCertificate } from 'node:tls'
import {
  type Authenticator,
  connect,
  type NatsConnection,
  type NodeConnectionOptions,
  nkeys,
} from '@nats-io/transport-node'
import { jittered } from '../kernel/flow/jitter.ts'

export type NatsCredentials = { readonly jwt: string; readonly seed: string }

export type NatsSettings = {
  servers: string[]
  name: string
  caFile?: string
  user?: string
  password?: string
  /**
   * For servers in operator mode. Called for each attempt, and sent beside the password: a server uses the one that it
   * knows, so it can change from passwords to operator mode while clients run.
   */
  credentials?: () => NatsCredentials | undefined
  /** The inbox for replies; NATS lets a node subscribe only to its own. */
  inboxPrefix?: string
  /** Aborts the wait for a NATS that is not reachable yet. */
  signal: AbortSignal
  /** Receives every failed attempt and every success, including reconnects. */
  link?: NatsLink
}

/** State of the connection, for logs, probes and metrics. */
export type NatsLink = {
  failed: (reason: string) => void
  connected: () => void
  /** Why NATS is unreachable, as a sentence; undefined while connected and before the first attempt has ended. */
  fault: () => string | undefined
  isConnected: () => boolean
}

const repeatAfterMs = 60_000

/**
 * Calls `report` with the fault when its reason changes and every minute while it lasts, and with undefined when it has
 * ended.
 */
export function createNatsLink(
  servers: readonly string[],
  report: (fault: string | undefined) => void,
  clock: () => number = Date.now,
): NatsLink {
  const where = servers.map(withoutPassword).join(', ')
  let isConnected = false
  let attempts = 0
  let reason: string | undefined
  let reportedAt = Number.NEGATIVE_INFINITY
  const fault = () => reason && `cannot reach NATS ${where}: ${reason} (attempt ${attempts})`
  return {
    failed(because) {
      const isNews = because !== reason || clock() - reportedAt >= repeatAfterMs
      isConnected = false
      attempts++
      reason = because
      if (!isNews) return
      reportedAt = clock()
      report(fault())
    },
    connected() {
      isConnected = true
      attempts = 0
      reason = undefined
      report(undefined)
    },
    fault,
    isConnected: () => isConnected,
  }
}

/** A URL may contain a user and a password, which must not be logged. */
export const withoutPassword = (server: string): string => server.replace(/^([a-z]+:\/\/)?.*@/i, '$1')

type NatsClient = Omit<NatsSettings, 'signal' | 'link'>

export const requiresTls = ({ caFile, servers }: Pick<NatsClient, 'caFile' | 'servers'>): boolean =>
  Boolean(caFile) || servers.some((server) => server.startsWith('tls://'))

function clientOptions(client: NatsClient): NodeConnectionOptions {
  const { servers, name, caFile, user, password, credentials, inboxPrefix } = client
  return {
    servers,
    name,
    // With the option `tls`, the library rejects a server without TLS before it sends the password, even on reconnects
    // and for servers that it learns of later. Without it, the scheme is only a hint, and the library connects in plain
    // text.
    ...(requiresTls(client) && { tls: { ...(caFile && { caFile }), ...identityOf(servers) } }),
    ...(user && { user, pass: password }),
    ...(credentials && { authenticator: withCredentials(credentials) }),
    ...(inboxPrefix && { inboxPrefix }),
  }
}

/**
 * Signs with OpenSSL. The library signs in JavaScript, which takes some 10 ms of processor time per attempt: with a
 * hundred connections, a process could take longer to sign than NATS waits, and never reconnect.
 */
function withCredentials(credentials: () => NatsCredentials | undefined): Authenticator {
  let signer: { readonly seed: string; readonly key: KeyObject } | undefined
  return (nonce = '') => {
    const current = credentials()
    if (!current) return
    if (signer?.seed !== current.seed) signer = { seed: current.seed, key: privateKeyOf(current.seed) }
    // NATS takes the public key from the JWT.
    return { jwt: current.jwt, nkey: '', sig: sign(null, Buffer.from(nonce), signer.key).toString('base64url') }
  }
}

/** PKCS #8 prefix of the 32 bytes of an Ed25519 key. */
const pkcs8 = Buffer.from('302e020100300506032b657004220420', 'hex')

function privateKeyOf(seed: string): KeyObject {
  const pair = nkeys.fromSeed(Buffer.from(seed)) as unknown as { getRawSeed: () => Uint8Array }
  return createPrivateKey({ key: Buffer.concat([pkcs8, pair.getRawSeed()]), format: 'der', type: 'pkcs8' })
}

/**
 * If the dialed server is an address, the library does not pass it on, and Node then expects a certificate for
 * `localhost`. This expects a certificate for one of the configured addresses instead.
 */
function identityOf(servers: readonly string[]) {
  const addresses = servers.map((server) => natsHost(server).host).filter((host) => isIP(host))
  return {
    checkServerIdentity(host: string, certificate: PeerCertificate): Error | undefined {
      const fault = checkServerIdentity(host, certificate)
      if (!fault || host !== 'localhost' || addresses.length === 0) return fault
      const faults = addresses.map((address) => checkServerIdentity(address, certificate))
      return faults.includes(undefined) ? undefined : faults[0]
    },
  }
}

export function natsHost(server: string): { host: string; port: number } {
  const { hostname, port } = new URL(/^[a-z]+:\/\//i.test(server) ? server : `nats://${server}`)
  return { host: hostname.replace(/^\[|\]$/g, ''), port: Number(port) || 4222 }
}

/** NATS's default, used until the server has announced its limit. */
const defaultMaxPayload = 1024 * 1024

/** Maximum size of a message on this server, headers included. */
export const maxMessageBytes = ({ info }: Pick<NatsConnection, 'info'>): number =>
  info?.max_payload ?? defaultMaxPayload

/** A single attempt, for a diagnosis. */
export const tryNats = (client: NatsClient, timeoutMs: number): Promise<NatsConnection> =>
  connect({ ...clientOptions(client), reconnect: false, timeout: timeoutMs })

const retryMs = 250
const longestRetryMs = 2_000
const spreadMs = 1_000

/**
 * Retries forever, both at first and later: an edge continues to serve without NATS, and so does the API. The first
 * connection has its own loop, because the library's cannot be aborted, and would keep an ending process alive.
 */
export async function connectNats(settings: NatsSettings): Promise<NatsConnection> {
  const { signal, link } = settings
  const options: NodeConnectionOptions = {
    ...clientOptions(settings),
    maxReconnectAttempts: -1,
    // NATS may accept a password later that it rejects now, after a reload of its configuration.
    ignoreAuthErrorAbort: true,
    reconnectTimeWait: retryMs,
    // Maximum jitter of each wait: NATS becomes reachable for all nodes at the same moment.
    reconnectJitter: spreadMs,
    reconnectJitterTLS: spreadMs,
    pingInterval: 5_000,
    maxPingOut: 2,
  }
  for (let waitMs = retryMs; ; waitMs = Math.min(waitMs * 2, longestRetryMs)) {
    signal.throwIfAborted()
    try {
      const connection = await connect(options)
      link?.connected()
      if (link) void watch(connection, link, signal)
      return connection
    } catch (error) {
      link?.failed(reasonOf(error as Error))
      await setTimeout(jittered(waitMs), undefined, { signal })
    }
  }
}

async function watch(connection: NatsConnection, link: NatsLink, ending: AbortSignal): Promise<void> {
  let reason = 'the connection was lost'
  for await (const status of connection.status()) {
    if (ending.aborted) return
    if (status.type === 'reconnect') {
      reason = 'the connection was lost'
      link.connected()
    }
    // For example an invalid password: NATS reports it before it closes the connection.
    if (status.type === 'error' && !link.isConnected()) reason = reasonOf(status.error)
    if (status.type === 'disconnect' || status.type === 'reconnecting') link.failed(reason)
  }
}

/** In one sentence, without details that only the library understands. */
export function reasonOf(error: Error): string {
  const { message, cause } = error
  const wrongName = certificateNameFault(error) ?? (cause instanceof Error ? certificateNameFault(cause) : undefined)
  if (wrongName) return wrongName
  if (/does not support 'tls'/.test(message)) return 'the server has no TLS, and tls:// requires it'
  const below = cause instanceof Error ? messageOf(cause) : ''
  const own = messageOf(error)
  return below && !own.includes(below) ? `${own} (${below})` : own
}

/** Node leaves the message empty if it tried several addresses of a name in vain. */
const messageOf = (error: Error): string =>
  error instanceof AggregateError ? error.errors.map(({ message }: Error) => message).join(', ') : error.message

/** Node says `Hostname/IP does not match certificate's altnames` and omits the names of the certificate. */
export function certificateNameFault(error: Error): string | undefined {
  const { code, host, cert } = error as Error & {
    code?: string
    host?: string
    cert?: { subjectaltname?: string; subject?: { CN?: string } }
  }
  if (code !== 'ERR_TLS_CERT_ALTNAME_INVALID') return undefined
  const alternatives = cert?.subjectaltname?.replaceAll(/(?:DNS|IP Address):/g, '')
  return `certificate is for "${alternatives || cert?.subject?.CN}", not ${host}`
}
