import {
  allRenewals,
  allReports,
  allRequests,
  allTails,
  apiPrefix,
  type Channels,
  channelsOf,
  defaultChannels,
  linkedRenewalSubject,
  renewalSubject,
} from '../distribution/channels.ts'
import type { NatsCredentials } from '../distribution/nats_connection.ts'
import { defaultCellName } from '../kernel/edge/cells.ts'
import { type NatsKey, newNatsKey, signNatsJwt } from './nats_jwt.ts'

/**
 * All signing keys for NATS in operator mode, stored in the database. The operator's root key is not included: it has
 * signed the operator's JWT, which names `operator` as a signing key, and is needed again only to replace that.
 */
export type NatsOperator = {
  /** For nats-server's configuration. */
  readonly jwt: string
  readonly keys: {
    readonly operator: NatsKey
    readonly system: NatsKey
    readonly control: NatsKey
    /** Signs the users of all nodes. The key of a node's own account is discarded. */
    readonly nodes: NatsKey
  }
}

/** A node's identity in NATS. */
export type NatsNode = {
  readonly name: string
  readonly cell: string
  readonly wave: number
  readonly account: string
  /** The account of its cell, if leaf servers link to it. */
  readonly cellAccount: string | null
}

export function newNatsOperator(now: number): { operator: NatsOperator; rootSeed: string } {
  const root = newNatsKey('operator')
  const keys = {
    operator: newNatsKey('operator'),
    system: newNatsKey('account'),
    control: newNatsKey('account'),
    nodes: newNatsKey('account'),
  }
  const nats = {
    type: 'operator',
    system_account: keys.system.publicKey,
    signing_keys: [keys.operator.publicKey],
  }
  const jwt = signNatsJwt(root.seed, { subject: root.publicKey, name: 'gatehouse', nats, now })
  return { operator: { jwt, keys }, rootSeed: root.seed }
}

/** All of these are required: NATS accepts an account with fewer, and then refuses every connection to it. */
export const unlimited = {
  subs: -1,
  data: -1,
  payload: -1,
  imports: -1,
  exports: -1,
  wildcards: true,
  conn: -1,
  leaf: -1,
}
const jetStream = { mem_storage: -1, disk_storage: -1, streams: -1, consumer: -1 }
/**
 * A node uses one connection. After a crash, NATS may count the former one for minutes, and a restart adds another. A
 * stolen node gets no more than this.
 */
const nodeLimits = { ...unlimited, conn: 16, leaf: 0, subs: 1_000 }

export type AccountClaims = {
  limits: object
  exports?: object[]
  imports?: object[]
  signing_keys?: string[]
  revocations?: object
}

export const accountJwt = ({ keys }: NatsOperator, account: string, name: string, claims: AccountClaims, now: number) =>
  signNatsJwt(keys.operator.seed, { subject: account, name, nats: { type: 'account', ...claims }, now })

export const systemAccountJwt = (operator: NatsOperator, now: number): string =>
  accountJwt(operator, operator.keys.system.publicKey, 'SYS', { limits: unlimited }, now)

/**
 * Requests that nodes may make. Read-only: never export a service with another effect, because every node could call it.
 */
const services = [
  '$JS.API.STREAM.INFO.*',
  '$JS.API.STREAM.MSG.GET.*',
  ...allReports,
  ...allRequests,
  ...allTails,
  ...allRenewals,
]
/** Subjects that nodes may receive. An account that imports only those of its cell and wave does not get the others. */
const streams = [
  ...[defaultChannels, channelsOf('*')].flatMap(({ batches, watches }) => [batches, watches]),
  ...[channelsOf(defaultCellName, '*'), channelsOf('*', '*')].map(({ batches }) => batches),
]

/** Owns JetStream and the buckets, independently of the nodes. */
export const controlAccountJwt = (operator: NatsOperator, now: number): string =>
  accountJwt(
    operator,
    operator.keys.control.publicKey,
    'CONTROL',
    {
      limits: { ...unlimited, ...jetStream },
      exports: [
        ...services.map((subject) => ({ name: subject, subject, type: 'service' })),
        directGets('$JS.API.DIRECT.GET.*'),
        ...streams.map((subject) => ({ name: subject, subject, type: 'stream' })),
      ],
    },
    now,
  )

export const imported = (type: 'service' | 'stream', account: string, subject: string, local_subject?: string) => ({
  ...{ name: subject, type, account, subject },
  ...(local_subject && { local_subject }),
})

/** The answer has one message per entry. */
export const directGets = (subject: string) => ({
  ...{ name: 'direct gets', subject, type: 'service' },
  ...{ response_type: 'Stream', response_threshold: 10_000_000_000 },
})

export const bucketCalls = ({ records, blobs }: Pick<Channels, 'records' | 'blobs'>): string[] => [
  ...[records, blobs].flatMap((bucket) => [`STREAM.INFO.KV_${bucket}`, `STREAM.MSG.GET.KV_${bucket}`]),
  `DIRECT.GET.KV_${records}`,
]

/**
 * Exactly the subjects that the node may reach, with its cell, wave and name spelled out. Replies go no further than its
 * account (ADR 0084). If its cell has an account, the node sends through that, because only that reaches past a leaf
 * server. It receives from both: one is silent at a leaf server, and the other everywhere else.
 */
function importsOf({ keys }: NatsOperator, { name, cell, wave, cellAccount }: NatsNode): object[] {
  const control = keys.control.publicKey
  const channels = channelsOf(cell, wave)
  const own = [channels.reports, channels.requests, channels.tail].map((subjectOf) => subjectOf(name))
  const renewal = renewalSubject(name)
  const api = (call: string) => `${apiPrefix}.${call}`
  return [
    ...own.map((subject) => imported('service', cellAccount ?? control, subject)),
    cellAccount
      ? imported('service', cellAccount, linkedRenewalSubject(cell, name), renewal)
      : imported('service', control, renewal),
    ...bucketCalls(channels).map((call) =>
      cellAccount
        ? imported('service', cellAccount, api(call))
        : imported('service', control, `$JS.API.${call}`, api(call)),
    ),
    ...[control, ...(cellAccount ? [cellAccount] : [])].flatMap((account) =>
      [channels.batches, channels.watches].map((subject) => imported('stream', account, subject)),
    ),
  ]
}

export const nodeAccountJwt = (operator: NatsOperator, node: NatsNode, now: number): string =>
  accountJwt(
    operator,
    node.account,
    node.name,
    {
      limits: nodeLimits,
      imports: importsOf(operator, node),
      signing_keys: [operator.keys.nodes.publicKey],
    },
    now,
  )

/**
 * The account of a revoked node. It is replaced instead of deleted, because servers of a cluster exchange the newest JWT
 * of an account: one that was down cannot restore what the others have deleted.
 */
export const closedAccountJwt = (
  operator: NatsOperator,
  { name, account }: Pick<NatsNode, 'name' | 'account'>,
  now: number,
): string =>
  accountJwt(operator, account, name, { limits: nodeLimits, revocations: { '*': Math.floor(now / 1_000) } }, now)

const dayMs = 24 * 60 * 60 * 1_000
/** Renewed every day, so a control plane that is down for days locks no node out. */
export const nodeJwtLifeMs = 7 * dayMs

export const allUser = { type: 'user', subs: -1, data: -1, payload: -1 }

type NatsUser = Pick<NatsNode, 'name' | 'account'> & { readonly user: string }

export const nodeUserJwt = ({ keys }: NatsOperator, node: NatsUser, now: number): string =>
  signNatsJwt(keys.nodes.seed, {
    subject: node.user,
    name: node.name,
    nats: { ...allUser, issuer_account: node.account },
    now,
    lifeMs: nodeJwtLifeMs,
  })

/** A user for one process of the control plane. */
export const ownUser = (account: NatsKey, name: string, permissions: object, now: number): NatsCredentials => {
  const { publicKey, seed } = newNatsKey('user')
  return {
    jwt: signNatsJwt(account.seed, { subject: publicKey, name, nats: { ...allUser, ...permissions }, now }),
    seed,
  }
}

export const controlPlaneUser = ({ keys }: NatsOperator, now: number): NatsCredentials =>
  ownUser(keys.control, 'control-plane', {}, now)

/** May create NATS accounts, and nothing else that the system account can do. */
export const accountPusher = ({ keys }: NatsOperator, now: number): NatsCredentials =>
  ownUser(keys.system, 'account-pusher', { pub: { allow: ['$SYS.REQ.CLAIMS.*'] }, sub: { allow: ['_INBOX.>'] } }, now)
