import { createHash, createPrivateKey, generateKeyPairSync } from 'node:crypto'
import { setTimeout } from 'node:timers/promises'
import type { DbPool } from '../db/pool.ts'
import { transaction } from '../db/transaction.ts'
import type { Clock } from '../kernel/clock.ts'
import type { SecretsBox } from '../kernel/crypto/secrets_box.ts'
import { UnreadableSecret } from '../kernel/crypto/unreadable_secret.ts'
import type { Uuid } from '../kernel/ids.ts'
import { removeChallenges } from '../resources/reserved_domains/order_plans.ts'
import { orderLimitCode, returnOrderSlot, takeOrderSlot } from '../resources/reserved_domains/order_slots.ts'
import type { AcmeAuthorization, AcmeChallenge, AcmeClient, AcmeOrder, Polled } from './client.ts'
import { certificateRequest } from './csr.ts'
import { runHook } from './hook.ts'
import { keyOfOrder, type LeasedOrder, noteOrder, publishChallenges } from './order_leases.ts'
import { AcmeProblem, problemOf, Unmet } from './problems.ts'
import { assertWanted } from './wanted.ts'

/** The part of the link to edge nodes that issuing needs. */
export type Nodes = {
  waitFor: (
    generation: number,
    accountId: Uuid,
    timeoutMs: number,
  ) => Promise<{ applied: readonly { node: string }[]; behind: readonly { node: string }[] }>
  committed: () => void
}
export type AcmeSettings = {
  directoryUrl: string
  ca: string | undefined
  contact: string
  agreesToTerms: boolean
  /** Empty if there is no hook; then wildcards cannot be validated. */
  dnsHook: string
  /** Whether names without a wildcard use the hook too. */
  dnsOnly: boolean
  /** Limit for one account. */
  ordersPerHour: number
}
export type IssueParts = {
  db: DbPool
  box: SecretsBox
  nodes: Nodes
  /** After this time, a majority of the nodes is enough. */
  waitForNodesMs: number
  client: AcmeClient
  clock: Clock
  settings: AcmeSettings
  signal: AbortSignal
  onCleanUpFailed: (error: unknown) => void
}

const pollMs = 1_000
const longestPollMs = 15_000
/** After this time, a later attempt asks the authority again. */
const patienceMs = 180_000

export const newPrivateKey = (type: 'ecdsa' | 'rsa'): string => {
  const { privateKey } =
    type === 'rsa'
      ? generateKeyPairSync('rsa', { modulusLength: 2_048 })
      : generateKeyPairSync('ec', { namedCurve: 'prime256v1' })
  return privateKey.export({ type: 'pkcs8', format: 'pem' }) as string
}

/** Obtains a chain and its key, resuming the order of a previous attempt after a crash. */
export async function issue(
  parts: IssueParts,
  leased: LeasedOrder,
  names: readonly string[],
  replaces: string | undefined,
): Promise<{ chain: string; key: string }> {
  const { client } = parts
  const { url, key } = (await resumed(parts, leased, names)) ?? (await begun(parts, leased, names, replaces))
  const { body: order } = await client.readOrder(url)
  if (order.status === 'pending') await authorize(parts, leased, order)
  const ready = await waitForStatus(parts, url, ['ready', 'valid', 'processing'])
  if (ready.status === 'ready') await client.finalize(ready, certificateRequest(createPrivateKey(key), names))
  const done = await waitForStatus(parts, url, ['valid'])
  if (!done.certificate) throw new AcmeProblem('malformed', 'the authority issued a certificate and did not say where')
  return { chain: await client.certificate(done.certificate), key }
}

/** Undefined if there is no order to resume: it was for other names, or the authority no longer knows it. */
async function resumed({ client, db, box, settings }: IssueParts, leased: LeasedOrder, names: readonly string[]) {
  const url = leased.order_url
  if (!url) return undefined
  await client.register(settings.contact, settings.agreesToTerms)
  if (JSON.stringify(leased.order_names) === JSON.stringify(names) && client.isOwn(url)) {
    const found = await client.readOrder(url).catch(undefinedIfRefused)
    const key = keyIfReadable(leased, box)
    if (key && found && found.body.status !== 'invalid') return { url, key }
  }
  await noteOrder(db, leased, null, box)
  return undefined
}

/** The operator may have replaced the encryption key meanwhile. */
function keyIfReadable(leased: LeasedOrder, box: SecretsBox): string | undefined {
  try {
    return keyOfOrder(leased, box)
  } catch (error) {
    if (error instanceof UnreadableSecret) return undefined
    throw error
  }
}

function undefinedIfRefused(error: unknown): undefined {
  const isRefused = error instanceof AcmeProblem && error.status >= 400 && error.status < 500
  if (!isRefused || error.type === 'rateLimited') throw error
}

/** Checks the account's hourly limit before contacting the authority. */
async function begun(
  { client, db, box, clock, settings }: IssueParts,
  leased: LeasedOrder,
  names: readonly string[],
  replaces: string | undefined,
) {
  const slot = await takeOrderSlot(db, leased.account_id, settings.ordersPerHour, clock())
  if ('freeAt' in slot)
    throw new Unmet(
      orderLimitCode,
      `this installation makes at most ${settings.ordersPerHour} orders per hour for an account, and they are used up. The order is made when there is room; the operator can raise GATEHOUSE_ACME_ORDERS_PER_HOUR`,
      slot.freeAt,
    )
  const key = newPrivateKey(leased.private_key_type)
  const ordered = async () => {
    await client.register(settings.contact, settings.agreesToTerms)
    return client.newOrder(names, replaces)
  }
  const { url } = await ordered().catch(async (error) => {
    const isUnheard = error instanceof AcmeProblem && error.type === 'unreachable'
    if (isUnheard) await returnOrderSlot(db, leased.account_id, slot.id)
    throw error
  })
  await noteOrder(db, leased, { url, names, key, now: clock() }, box)
  return { url, key }
}

type Pending = { url: string; name: string; challenge: AcmeChallenge; answer: string }

async function authorize(parts: IssueParts, leased: LeasedOrder, order: AcmeOrder): Promise<void> {
  const { client } = parts
  const pending: Pending[] = []
  for (const url of order.authorizations) {
    const { body: authorization } = await client.readAuthorization(url)
    if (authorization.status === 'valid') continue
    const name = authorization.identifier.value
    const type = parts.settings.dnsOnly || authorization.wildcard ? 'dns-01' : 'http-01'
    const challenge = authorization.challenges.find((each) => each.type === type)
    if (!challenge) throw new AcmeProblem('unsupported', `the authority does not offer ${type} for ${name}`)
    pending.push({ url, name, challenge, answer: client.keyAuthorization(challenge.token) })
  }
  const records = pending.filter(({ challenge }) => challenge.type === 'dns-01').map(recordOf)
  try {
    for (const record of records) await runHook(parts.settings.dnsHook, 'present', record, parts.signal)
    const behind = await presentOnNodes(parts, leased, pending)
    for (const { challenge } of pending) if (challenge.status === 'pending') await client.respond(challenge)
    for (const { url, name } of pending) await authorized(parts, url, name, behind)
  } finally {
    // Runs even during a shutdown: nothing else removes the challenges.
    for (const record of records) await runHook(parts.settings.dnsHook, 'cleanup', record).catch(parts.onCleanUpFailed)
    await transaction(parts.db, (tx) => removeChallenges(tx, leased)).catch(parts.onCleanUpFailed)
    parts.nodes.committed()
  }
}

const recordOf = ({ name, answer }: Pending) => ({
  name: `_acme-challenge.${name}`,
  value: createHash('sha256').update(answer).digest('base64url'),
})

/**
 * Waits until every live node can answer the authority. After the time limit a majority is enough, so that one stuck
 * node cannot block the certificates of all accounts. Resolves to the names of the missing nodes.
 */
async function presentOnNodes(
  { db, nodes, waitForNodesMs, signal }: IssueParts,
  leased: LeasedOrder,
  pending: readonly Pending[],
): Promise<string[]> {
  const challenges = pending
    .filter(({ challenge }) => challenge.type === 'http-01')
    .map(({ name, challenge, answer }) => ({ host: name, token: challenge.token, answer }))
  if (challenges.length === 0) return []
  const generation = await transaction(db, async (tx) => {
    await assertWanted(tx, leased)
    await removeChallenges(tx, leased)
    return publishChallenges(tx, leased, challenges)
  })
  nodes.committed()
  const end = performance.now() + waitForNodesMs
  for (;;) {
    const { applied, behind } = await nodes.waitFor(generation, leased.account_id, Math.max(end - performance.now(), 0))
    if (behind.length === 0 && applied.length > 0) return []
    if (performance.now() >= end) {
      const names = behind.map(({ node }) => node)
      if (applied.length > behind.length) return names
      throw new AcmeProblem(
        'nodes',
        applied.length + behind.length === 0
          ? 'no edge node is connected, so no node would answer the authority on port 80'
          : `${behind.length} of ${applied.length + behind.length} edge nodes did not take over the answer to the authority in time: ${shortList(names)}`,
      )
    }
    await setTimeout(pollMs / 4, undefined, { signal })
  }
}

const shortList = (names: readonly string[]): string =>
  names.length > 5 ? `${names.slice(0, 5).join(', ')} and ${names.length - 5} more` : names.join(', ')

async function authorized(parts: IssueParts, url: string, name: string, behind: readonly string[]): Promise<void> {
  const { challenges, status } = await polled<AcmeAuthorization>(
    parts,
    () => parts.client.readAuthorization(url),
    (body) => body.status !== 'pending',
  )
  if (status === 'valid') return
  const failed = challenges.find(({ error }) => error)
  const problem = problemOf(failed?.error ?? { detail: `the authorization is ${status}` }, 0)
  const suspects = behind.length ? `. These edge nodes did not have the answer: ${shortList(behind)}` : ''
  throw new AcmeProblem(problem.type, `${name} was not validated: ${problem.message}${suspects}`)
}

async function waitForStatus(
  parts: IssueParts,
  url: string,
  wanted: readonly AcmeOrder['status'][],
): Promise<AcmeOrder> {
  const order = await polled(
    parts,
    () => parts.client.readOrder(url),
    ({ status }) => status === 'invalid' || wanted.includes(status),
  )
  if (order.status === 'invalid') throw problemOf(order.error ?? { detail: 'the authority refused the order' }, 0)
  return order
}

/** Polls at the authority's interval, within our own time limit. */
async function polled<Body>(
  { signal }: IssueParts,
  read: () => Promise<Polled<Body>>,
  isDone: (body: Body) => boolean,
): Promise<Body> {
  const end = performance.now() + patienceMs
  for (;;) {
    const { body, retryAfterMs = pollMs } = await read()
    if (isDone(body)) return body
    if (performance.now() > end) throw new AcmeProblem('slow', 'the authority has not decided yet')
    await setTimeout(Math.min(Math.max(retryAfterMs, pollMs), longestPollMs), undefined, { signal })
  }
}
