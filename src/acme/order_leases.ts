import { type Db, many, maybeOne, one, run } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import type { RecordKey } from '../distribution/records.ts'
import { rfc3339 } from '../kernel/clock.ts'
import type { SecretsBox } from '../kernel/crypto/secrets_box.ts'
import { newUuid, toId, type Uuid } from '../kernel/ids.ts'
import { writeOutbox } from '../operations/outbox.ts'
import { orderLimitCode } from '../resources/reserved_domains/order_slots.ts'
import type { DomainStatus } from '../resources/reserved_domains/schema.ts'

/** An order under lease. Only the lease holder may work on it. */
export type LeasedOrder = {
  account_id: Uuid
  domain_id: Uuid
  lease_token: Uuid
  plans: number
  domain: string
  status: DomainStatus
  private_key_type: 'ecdsa' | 'rsa'
  certificate_id: Uuid | null
  order_url: string | null
  order_names: string[] | null
  private_key: Buffer | null
  secrets_key_id: string | null
  failures: number
  error_code: string | null
  error: string | null
  renews_at: string | null
  issued_by: string | null
}
type Which = Pick<LeasedOrder, 'account_id' | 'domain_id'>

/** Another process took over the order, or it was withdrawn. The results of this attempt must not be written. */
export class LeaseLost extends Error {
  override readonly name = 'LeaseLost'
}

/** Concurrent orders per account, so that an account with many domains does not block the others. */
const leasesPerAccount = 2
const lease = (seconds: number) => sql`now() + ${seconds} * interval '1 second'`

/**
 * Leases the next due order to exactly one process; undefined if none is due. Leases use the database's clock, which
 * all processes share. Accounts take turns: the one whose last turn is longest ago comes first, regardless of how many
 * orders the others have. The database rounds to milliseconds and our clock truncates, so an order planned just now may
 * be due a millisecond later.
 */
export const leaseOrder = (db: Db, now: number, leaseSeconds: number) =>
  maybeOne<LeasedOrder>(
    db,
    sql`
    with due as (
      select o.account_id, o.domain_id from acme_orders o left join acme_turns t on t.account_id = o.account_id
      where o.next_attempt_at <= ${rfc3339(now + 1)} and (o.lease_until is null or o.lease_until <= now())
        and ${leasesPerAccount} > (
          select count(*) from acme_orders b where b.account_id = o.account_id and b.lease_until > now())
      order by t.leased_at nulls first, o.next_attempt_at limit 1 for update of o skip locked
    ), turn as (
      insert into acme_turns (account_id, leased_at) select account_id, clock_timestamp() from due
      on conflict (account_id) do update set leased_at = excluded.leased_at
    )
    update acme_orders o set lease_token = ${newUuid()}, lease_until = ${lease(leaseSeconds)}
    from due, reserved_domains d
    where o.account_id = due.account_id and o.domain_id = due.domain_id
      and d.account_id = o.account_id and d.id = o.domain_id and d.private_key_type is not null
    returning o.account_id, o.domain_id, o.lease_token, o.plans, d.domain, d.status, d.private_key_type, d.certificate_id,
      o.order_url, o.order_names, o.private_key, o.secrets_key_id, o.failures, o.error_code, o.error, o.renews_at,
      o.issued_by`,
  )

const heldBy = ({ account_id, domain_id, lease_token }: Which & Pick<LeasedOrder, 'lease_token'>) =>
  sql`account_id = ${account_id} and domain_id = ${domain_id} and lease_token = ${lease_token}`

/** Resolves to false if another process holds the lease. */
export const extendLease = async (db: Db, order: LeasedOrder, leaseSeconds: number): Promise<boolean> =>
  (await maybeOne(
    db,
    sql`update acme_orders set lease_until = ${lease(leaseSeconds)} where ${heldBy(order)} returning domain_id`,
  )) !== undefined

/** Call it in the transaction that it protects: the row stays locked until the transaction ends. */
export async function assertLease(tx: Db, order: LeasedOrder): Promise<void> {
  const held = await maybeOne(tx, sql`select domain_id from acme_orders where ${heldBy(order)} for update`)
  if (!held) throw new LeaseLost(`another process works on ${order.domain}, or its certificate is not managed any more`)
}

const keyContext = ({ account_id, domain_id }: Which) => `acme_orders ${account_id} ${domain_id}`

/** Null: the order has ended or cannot be resumed, and the next attempt creates another. */
export async function noteOrder(
  db: Db,
  order: LeasedOrder,
  begun: { url: string; names: readonly string[]; key: string; now: number } | null,
  box: SecretsBox,
): Promise<void> {
  const sealed = begun && box.seal(begun.key, keyContext(order))
  const noted = await maybeOne(
    db,
    sql`
    update acme_orders
    set order_url = ${begun?.url ?? null}, order_names = ${begun?.names ?? null}, private_key = ${sealed?.sealed ?? null},
      secrets_key_id = ${sealed?.keyId ?? null}, started_at = ${begun && rfc3339(begun.now)}
    where ${heldBy(order)} returning domain_id`,
  )
  if (!noted) throw new LeaseLost(`another process works on ${order.domain}`)
}

/** Throws UnreadableSecret. */
export const keyOfOrder = (order: LeasedOrder, box: SecretsBox): string | undefined =>
  order.private_key && order.secrets_key_id
    ? box.open({ keyId: order.secrets_key_id, sealed: order.private_key }, keyContext(order))
    : undefined

export type Ending = {
  nextAttemptAt: number
  renewsAt: number | null
  issuedBy: string | null
  /** Consecutive failures. */
  failures: number
  error: { code: string; message: string } | null
  /** No attempt before this time, even if the account requests one. */
  heldBackUntil: number | null
}

/**
 * Releases the lease and schedules the next attempt. A change planned during this attempt is tried as soon as allowed.
 */
export const endLease = (db: Db, order: LeasedOrder, ending: Ending) =>
  run(
    db,
    sql`
    update acme_orders
    set lease_token = null, lease_until = null,
      next_attempt_at = case when plans = ${order.plans} then ${rfc3339(ending.nextAttemptAt)}::timestamptz
        else greatest(now(), ${orNull(ending.heldBackUntil)}::timestamptz) end,
      held_back_until = ${orNull(ending.heldBackUntil)}, renews_at = ${orNull(ending.renewsAt)},
      issued_by = ${ending.issuedBy}, failures = ${ending.failures},
      error_code = ${ending.error?.code ?? null}, error = ${ending.error?.message ?? null}
    where ${heldBy(order)}`,
  )
const orNull = (moment: number | null) => (moment === null ? null : rfc3339(moment))

/** Undoes the lease without counting an attempt, so that another process can continue immediately. */
export const giveLeaseBack = (db: Db, order: LeasedOrder) =>
  run(db, sql`update acme_orders set lease_token = null, lease_until = null where ${heldBy(order)}`)

/**
 * Names under the domain that the account's edges serve, including wildcards. Excludes names under a reserved subdomain
 * and names covered by one of the wildcards: authorities refuse orders with both.
 */
export async function namesToCertify(db: Db, { account_id, domain }: LeasedOrder): Promise<string[]> {
  const rows = await many<{ name: string }>(
    db,
    sql`
    select distinct split_part(h.hostport, ':', 1) as name from hostports h
    where h.account_id = ${account_id} and h.hostport like '%:443'
      and hostport_claim(h.hostport) collate "C" >= hostport_claim(${`${domain}:443`})
      and hostport_claim(h.hostport) collate "C" < left(hostport_claim(${`${domain}:443`}), -1) || '/'
      and not exists (
        select from reserved_domains n
        where n.status in ('verified', 'failing', 'assigned') and length(n.domain) > ${domain.length}
          and starts_with(hostport_claim(h.hostport), hostport_claim(n.domain || ':443')))
    order by 1`,
  )
  const names = new Set(rows.map(({ name }) => name))
  return [...names].filter((name) => !names.has(`*.${name.slice(name.indexOf('.') + 1)}`) || name.startsWith('*.'))
}

type Challenge = { host: string; token: string; answer: string }

/** Resolves to the generation from which nodes answer the challenges. */
export async function publishChallenges(
  tx: Db,
  { account_id, domain_id }: Which,
  challenges: readonly Challenge[],
): Promise<number> {
  const keys: RecordKey[] = []
  for (const { host, token, answer } of challenges) {
    const id = newUuid()
    keys.push(`challenge.${toId('chl', id)}`)
    await run(
      tx,
      sql`
      insert into acme_challenges (account_id, id, domain_id, host, token, answer)
      values (${account_id}, ${id}, ${domain_id}, ${host}, ${token}, ${answer})`,
    )
  }
  return writeOutbox(tx, account_id, keys)
}

/** Run it before an encryption key is removed: orders whose key can no longer be decrypted are started again. */
export const forgetOrdersSealedBefore = (db: Db, { keyId }: Pick<SecretsBox, 'keyId'>) =>
  run(
    db,
    sql`
    update acme_orders set order_url = null, order_names = null, private_key = null, secrets_key_id = null, started_at = null
    where secrets_key_id <> ${keyId}`,
  )

export const countOrders = (db: Db) =>
  one<{ failing: number; waiting: number; settled: number; overdue: number; limited: number }>(
    db,
    sql`
    select count(*) filter (where failures > 0) as failing,
      count(*) filter (where failures = 0 and renews_at is null) as waiting,
      count(*) filter (where failures = 0 and renews_at is not null) as settled,
      count(*) filter (where renews_at < now() - interval '1 day') as overdue,
      count(*) filter (where error_code = ${orderLimitCode}) as limited
    from acme_orders`,
  )
