import { jetstreamManager } from '@nats-io/jetstream'
import {
  AuthorizationError,
  type NatsConnection,
  RequestError,
  UserAuthenticationExpiredError,
} from '@nats-io/transport-node'
import type { Config, EdgeConfig } from '../config/config.ts'
import { openBucketApi, sharedAccount } from '../distribution/bucket_api.ts'
import { type Channels, defaultChannels, inboxOf } from '../distribution/channels.ts'
import {
  type NatsCredentials,
  natsHost,
  reasonOf,
  requiresTls,
  tryNats,
  withoutPassword,
} from '../distribution/nats_connection.ts'
import { answerTimeoutMs, clockFinding, expiryFinding, type Finding, failed, ok, warning } from './finding.ts'
import { type DeadAddress, greet, type Lookup } from './nats_greeting.ts'

/** Same version as in docs/operate/nats.md. */
const oldest = '2.11'

export type NatsClient = {
  servers: string[]
  caFile: string
  user: string
  password: string
  credentials?: NatsCredentials | undefined
  /** The name of an edge node. The control plane, which creates the buckets, has none. */
  node?: string
  channels?: Channels
  /** Number of replicas with which the control plane creates the buckets. */
  replicas?: number
}

export const natsClient = (config: Config | EdgeConfig): NatsClient => ({
  servers: config.GATEHOUSE_NATS_URL,
  caFile: config.GATEHOUSE_NATS_CA_FILE,
  user: config.GATEHOUSE_NATS_USER,
  password: config.GATEHOUSE_NATS_PASSWORD,
})

/** Checks each server separately: a client that reaches one of three does not notice that the others are wrong. */
export async function checkNats(client: NatsClient, lookup?: Lookup): Promise<Finding[]> {
  const each = await Promise.all(client.servers.map((server) => checkServer(server, client, lookup)))
  const usable = client.servers.find((_, index) => each[index]?.every(({ status }) => status !== 'failed'))
  return [...each.flat(), ...(usable === undefined ? [] : await checkAsClient(usable, client))]
}

async function checkServer(server: string, client: NatsClient, lookup: Lookup | undefined): Promise<Finding[]> {
  const at = withoutPassword(server)
  const needsTls = requiresTls(client)
  const tls = needsTls ? { caFile: client.caFile } : undefined
  const greeting = await greet(server, tls, lookup).catch((error: Error) => error)
  if (greeting instanceof Error)
    return [
      failed(
        'nats.server',
        `cannot reach ${at}: ${greeting.message}`,
        'Start nats-server, correct GATEHOUSE_NATS_URL, or open the firewall',
      ),
    ]
  const { version, certificate, dead } = greeting
  const isRecent = version.localeCompare(oldest, 'en', { numeric: true }) >= 0
  return [
    isRecent
      ? ok('nats.server', `${at} is nats-server ${version}`)
      : failed('nats.server', `${at} is nats-server ${version}, which is too old`, `Upgrade it to ${oldest} or newer`),
    ...(needsTls ? [certificateFinding(at, certificate)] : []),
    ...deadAddresses(server, dead),
  ]
}

/** Ignores localhost: it has two addresses, and NATS may listen on only one of them. */
function deadAddresses(server: string, dead: readonly DeadAddress[]): Finding[] {
  const { host } = natsHost(server)
  if (dead.length === 0 || host === 'localhost') return []
  return [
    warning(
      'nats.addresses',
      `NATS does not answer at every address of ${host}: ${dead.map(({ reason }) => reason).join(', ')}`,
      'Remove stale addresses from DNS or /etc/hosts, or start NATS there: clients lose time with them',
    ),
  ]
}

type Certificate = Awaited<ReturnType<typeof greet>>['certificate']

function certificateFinding(at: string, certificate: Certificate): Finding {
  const check = 'nats.certificate'
  if (certificate === undefined)
    return failed(
      check,
      `${at} has no TLS, and the settings require it`,
      "Add a 'tls' block to nats.conf, as in deploy/nats",
    )
  const { nameFault, trustFault, from, to } = certificate
  const renew = 'Renew it, and reload nats-server'
  const expiry = expiryFinding(check, `the certificate of ${at}`, from, to, renew)
  if (expiry.status === 'failed') return expiry
  if (nameFault)
    return failed(
      check,
      `${at}: ${nameFault}`,
      'Use a name of the certificate in GATEHOUSE_NATS_URL, or issue one for this name',
    )
  if (trustFault)
    return failed(
      check,
      `the certificate of ${at} is not trusted: ${trustFault}`,
      'Set GATEHOUSE_NATS_CA_FILE to the certificate of the authority that signed it',
    )
  return expiry
}

async function checkAsClient(server: string, client: NatsClient): Promise<Finding[]> {
  const { caFile, user, password, credentials, node } = client
  const as = credentials ? 'with a JWT' : user ? `as ${user}` : 'without a user'
  let nats: NatsConnection
  try {
    nats = await tryNats(
      {
        servers: [server],
        name: 'gatehouse doctor',
        caFile,
        user,
        password,
        ...(credentials && { credentials: () => credentials }),
        ...(node && { inboxPrefix: inboxOf(node) }),
      },
      answerTimeoutMs,
    )
  } catch (error) {
    const [at, reason] = [withoutPassword(server), reasonOf(error as Error)]
    if (!(error instanceof AuthorizationError || error instanceof UserAuthenticationExpiredError))
      return [
        failed(
          'nats.server',
          `${at} answers, and a connection ${as} fails: ${reason}`,
          'Run doctor again: NATS may have just stopped, or be overloaded. Its log says more',
        ),
      ]
    return [
      failed(
        'nats.credentials',
        `${at} refuses the connection ${as}: ${reason}`,
        credentials
          ? "If the node was revoked, or was away for more than 7 days, invite it again: 'gatehouse nodes invite' on the control plane"
          : 'Check GATEHOUSE_NATS_USER and GATEHOUSE_NATS_PASSWORD against authorization.conf and the environment of nats-server',
      ),
    ]
  }
  try {
    return [ok('nats.credentials', `signed in ${as}`), ...(await checkBuckets(nats, client))]
  } finally {
    void nats.close().catch(() => {})
  }
}

async function checkBuckets(nats: NatsConnection, client: NatsClient): Promise<Finding[]> {
  const { node, channels = defaultChannels, replicas = 1 } = client
  const check = 'nats.buckets'
  const asked = Date.now()
  try {
    const { streams, isShared } = node
      ? await openBucketApi(nats, channels, answerTimeoutMs)
      : { ...(await jetstreamManager(nats, { timeout: answerTimeoutMs, checkAPI: false })), isShared: false }
    const found = await Promise.all([channels.records, channels.blobs].map((name) => streams.info(`KV_${name}`)))
    const few = found.find(({ config }) => config.num_replicas < replicas)
    // Servers since 2.10 include the time in their replies.
    const { ts } = found[0] as { ts?: string }
    return [
      few
        ? warning(
            check,
            `the buckets have ${few.config.num_replicas} replicas, and GATEHOUSE_NATS_REPLICAS is ${replicas}`,
            `Run 'nats stream edit --replicas ${replicas}' for KV_${channels.records} and KV_${channels.blobs}`,
          )
        : ok(check, `${channels.records} and ${channels.blobs} can be read`),
      ...(isShared ? [warning('nats.account', sharedAccount.fault, sharedAccount.hint)] : []),
      ...(node ? [await checkReports(nats, channels, node, client)] : []),
      ...(ts ? [clockFinding('clock.nats', 'NATS', asked, Date.parse(ts), Date.now())] : []),
    ]
  } catch (error) {
    return [bucketFault(check, error as Error, client)]
  }
}

/**
 * Sends an empty message, which the control plane ignores. NATS reports a missing subscriber or permission immediately.
 */
async function checkReports(
  nats: NatsConnection,
  channels: Channels,
  node: string,
  client: NatsClient,
): Promise<Finding> {
  const check = 'nats.reports'
  const error = await nats.request(channels.tail(node), '', { timeout: 1_000 }).then(
    () => undefined,
    (fault: Error) => fault,
  )
  return error instanceof RequestError
    ? failed(
        check,
        `the control plane does not receive what this node reports: ${reasonOf(error)}`,
        client.credentials
          ? `Check that 'gatehouse serve' is running, and ${linkHint}`
          : `GATEHOUSE_EDGE_NODE is ${node}: authorization.conf must have a block with exactly this name in all places. Check also that 'gatehouse serve' is running`,
      )
    : ok(check, `the control plane receives the reports of ${node}`)
}

/** A leaf server without its link looks like a NATS that does not offer the buckets. */
const linkHint = 'if this node connects to a leaf server, that its log has no fault of the link to the control plane'

function bucketFault(check: string, error: Error, { node, credentials }: NatsClient): Finding {
  const reason = reasonOf(error)
  if (/stream not found/i.test(reason))
    return node === undefined
      ? ok(check, "not there yet: 'gatehouse serve' creates them when it starts")
      : failed(
          check,
          'they do not exist',
          "Start 'gatehouse serve' with the settings of this NATS first: it creates them",
        )
  if (/permission|no responders|timeout/i.test(reason) && node !== undefined)
    return failed(
      check,
      `the user of this node may not read them: ${reason}`,
      credentials
        ? `Check that jetstream is on, and ${linkHint}`
        : `GATEHOUSE_EDGE_NODE is ${node}: authorization.conf must have a block with exactly this name in all places, and jetstream must be on`,
    )
  return failed(
    check,
    `JetStream does not answer: ${reason}`,
    "Add a 'jetstream' block to nats.conf, as in deploy/nats",
  )
}
