import { randomBytes } from 'node:crypto'
import { lockItemInTransaction } from '../../db/advisory_locks.ts'
import { violates } from '../../db/failures.ts'
import { deleteUnlessReferenced } from '../../db/in_use.ts'
import { type Db, later, many, maybeOne, one } from '../../db/pool.ts'
import { nothing, type SqlFragment, sql } from '../../db/sql.ts'
import type { Caller } from '../../identity/caller.ts'
import { servedNames } from '../../kernel/crypto/certificate.ts'
import { invalidField, Refusal } from '../../kernel/errors.ts'
import { type Id, newUuid, toId, toUuid, type Uuid } from '../../kernel/ids.ts'
import { type PageQuery, rowsToFetch } from '../../kernel/paging.ts'
import type { AnnotationColumns } from '../../operations/annotations.ts'
import { writeOutbox } from '../../operations/outbox.ts'
import { removeChallenges, replanOrders } from './order_plans.ts'
import type { DomainStatus, ManagementPolicy } from './schema.ts'

export type Account = Pick<Caller, 'accountId'>
export type ReservedDomainRow = AnnotationColumns & {
  account_id: Uuid
  id: Uuid
  domain: string
  challenge: string
  status: DomainStatus
  verified_at: string | null
  lapses_at: string | null
  checked_at: string | null
  error: string | null
  created_at: string
  certificate_id: Uuid | null
  certificate_authority: ManagementPolicy['authority'] | null
  private_key_type: ManagementPolicy['private_key_type'] | null
  /** Null unless its certificate is managed. */
  management: {
    error_code: string | null
    error: string | null
    started_at: string | null
    next_attempt_at: string
    renews_at: string | null
  } | null
}

/** A timestamp inside JSON, in the common format. */
const utc = (column: SqlFragment) => sql`to_char(${column} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')`

export const columns = sql`
  d.account_id, d.id, d.domain, d.description, d.metadata, d.challenge, d.status, d.verified_at, d.lapses_at, d.checked_at,
  d.error, d.created_at, d.certificate_id, d.certificate_authority, d.private_key_type, (
    select json_build_object('error_code', o.error_code, 'error', o.error, 'started_at', ${utc(sql`o.started_at`)},
      'next_attempt_at', ${utc(sql`o.next_attempt_at`)}, 'renews_at', ${utc(sql`o.renews_at`)})
    from acme_orders o where o.account_id = d.account_id and o.domain_id = d.id) as management`
/** Statuses in which the account holds the domain. Same as in the index reserved_domains_one_holder. */
export const isHeld = (status: DomainStatus): boolean => ['verified', 'failing', 'assigned'].includes(status)
export const holds = sql`d.status in ('verified', 'failing', 'assigned')`

const newChallenge = () => `gatehouse-verification=${randomBytes(24).toString('base64url')}`

export async function insertReservedDomain(
  tx: Db,
  { accountId }: Account,
  fields: AnnotationColumns & { domain: string },
): Promise<ReservedDomainRow> {
  try {
    return await one<ReservedDomainRow>(
      tx,
      sql`
      insert into reserved_domains as d (account_id, id, domain, description, metadata, challenge)
      values (${accountId}, ${newUuid()}, ${fields.domain}, ${fields.description}, ${fields.metadata}, ${newChallenge()})
      returning ${columns}`,
    )
  } catch (cause) {
    if (!violates(cause, 'reserved_domains_unique')) throw cause
    throw new Refusal('ERR_DOMAIN_RESERVED', `This account has already reserved ${fields.domain}.`, {
      cause,
      details: { field: 'domain' },
    })
  }
}

export async function findReservedDomain(
  db: Db,
  { accountId }: Account,
  id: Id<'rd'>,
  lock: boolean,
): Promise<ReservedDomainRow | undefined> {
  const which = sql`d.account_id = ${accountId} and d.id = ${toUuid(id)}`
  if (lock) await lockDomains(db, sql`select d.domain from reserved_domains d where ${which}`)
  return maybeOne<ReservedDomainRow>(
    db,
    sql`select ${columns} from reserved_domains d where ${which} ${lock ? sql`for update` : nothing}`,
  )
}

/**
 * Serializes changes of one domain before they lock rows: a change in one account may end another account's hold, and
 * two such changes would deadlock.
 */
const lockDomains = (tx: Db, domains: ReturnType<typeof sql>): Promise<void> =>
  later(
    tx,
    sql`
    select ${lockItemInTransaction('domains', sql`key`)}
    from (select distinct hashtext(domain) as key from (${domains}) named order by 1) keys`,
  )

type ReservedDomainQuery = PageQuery & { before_id?: Id<'rd'>; domain?: string; certificate_id?: Id<'cert'> }

export const listReservedDomains = (db: Db, { accountId }: Account, query: ReservedDomainQuery) =>
  many<ReservedDomainRow>(
    db,
    sql`
    select ${columns} from reserved_domains d where d.account_id = ${accountId}
    ${query.before_id ? sql`and d.id < ${toUuid(query.before_id)}` : nothing}
    ${query.domain === undefined ? nothing : sql`and d.domain = ${query.domain.toLowerCase()}`}
    ${query.certificate_id ? sql`and d.certificate_id = ${toUuid(query.certificate_id)}` : nothing}
    order by d.id desc limit ${rowsToFetch(query)}`,
  )

export const updateAnnotations = (tx: Db, { accountId }: Account, id: Uuid, fields: AnnotationColumns) =>
  one<ReservedDomainRow>(
    tx,
    sql`
    update reserved_domains d set description = ${fields.description}, metadata = ${fields.metadata}
    where d.account_id = ${accountId} and d.id = ${id} returning ${columns}`,
  )

export async function deleteReservedDomain(tx: Db, { accountId }: Account, id: Id<'rd'>): Promise<void> {
  await removeChallenges(tx, { account_id: accountId, domain_id: toUuid(id) })
  const statement = sql`delete from reserved_domains where account_id = ${accountId} and id = ${toUuid(id)}`
  if (await deleteUnlessReferenced(tx, statement, ['hostports_domain_fk'])) return
  const users = await many<{ hostport: string; edge_id: Uuid }>(
    tx,
    sql`
    select hostport, edge_id from hostports where account_id = ${accountId} and reserved_domain_id = ${toUuid(id)}
    order by hostport limit 10`,
  )
  const used_by = users.map(({ hostport, edge_id }) => `${hostport} of ${toId('edghts', edge_id)}`).join(', ')
  throw new Refusal('ERR_DOMAIN_IN_USE', `Hostports are still under this domain: ${used_by}. Remove them first.`, {
    details: { used_by },
  })
}

/** Result of a check, or of the operator's decision. */
export type Standing = Pick<ReservedDomainRow, 'status' | 'verified_at' | 'lapses_at' | 'checked_at' | 'error'>

export async function updateStanding(
  tx: Db,
  { account_id, id, domain, status }: Pick<ReservedDomainRow, 'account_id' | 'id' | 'domain' | 'status'>,
  standing: Standing,
): Promise<ReservedDomainRow> {
  try {
    const row = await one<ReservedDomainRow>(
      tx,
      sql`
      update reserved_domains d
      set status = ${standing.status}, verified_at = ${standing.verified_at}, lapses_at = ${standing.lapses_at},
        checked_at = ${standing.checked_at}, error = ${standing.error}
      where d.account_id = ${account_id} and d.id = ${id} returning ${columns}`,
    )
    if (status === standing.status) return row
    await noteCertificates(tx, domain)
    if (!isHeld(row.status)) await removeChallenges(tx, { account_id, domain_id: id })
    else if (!isHeld(status)) await replanOrders(tx, account_id, [domain])
    return row
  } catch (cause) {
    if (!violates(cause, 'reserved_domains_one_holder')) throw cause
    throw new Refusal(
      'ERR_DOMAIN_TAKEN',
      `Another account of this installation holds ${domain}. Its TXT record must be removed from DNS, or the operator of the installation must unassign the domain.`,
      { cause },
    )
  }
}

/** The holder of a domain decides for which names certificates are served: its own, and those of parent domains. */
async function noteCertificates(tx: Db, domain: string): Promise<void> {
  const labels = domain.split('.')
  const above = labels.map((_, index) => labels.slice(index).join('.'))
  const rows = await many<{ account_id: Uuid; certificate_id: Uuid }>(
    tx,
    sql`
    select distinct account_id, certificate_id from reserved_domains
    where domain = any(${above}) and certificate_id is not null`,
  )
  for (const { account_id, certificate_id } of rows)
    await writeOutbox(tx, account_id, [`certificate.${toId('cert', certificate_id)}`])
}

/**
 * Attaches another certificate of the account, or none. Refuses a certificate without a name under the domain, because
 * nothing could be served with it. The row is locked, so that a concurrent delete waits and then violates the foreign
 * key.
 */
export async function attachCertificate(
  tx: Db,
  { accountId }: Account,
  { id, domain }: ReservedDomainRow,
  certificate: Id<'cert'> | null,
): Promise<ReservedDomainRow> {
  if (certificate !== null) {
    const found = await maybeOne<{ dns_names: string[] }>(
      tx,
      sql`
      select array(select jsonb_array_elements_text(facts -> 'subject_alternative_names' -> 'dns_names')) as dns_names
      from tls_certificates where account_id = ${accountId} and id = ${toUuid(certificate)} for key share`,
    )
    if (!found) throw invalidField('certificate_id', 'must be a TLS certificate of this account')
    if (servedNames(found.dns_names, [domain], []).names.length === 0)
      throw invalidField('certificate_id', `must be a certificate for ${domain} or names under it`)
  }
  return one<ReservedDomainRow>(
    tx,
    sql`
    update reserved_domains d set certificate_id = ${certificate && toUuid(certificate)}
    where d.account_id = ${accountId} and d.id = ${id} returning ${columns}`,
  )
}

/** Null: certificates are not managed. */
export const setManagementPolicy = (
  tx: Db,
  { accountId }: Account,
  id: Uuid,
  policy: ManagementPolicy | null,
): Promise<void> =>
  later(
    tx,
    sql`
    update reserved_domains
    set certificate_authority = ${policy?.authority ?? null}, private_key_type = ${policy?.private_key_type ?? null}
    where account_id = ${accountId} and id = ${id}`,
  )

/** Another account that holds the domain; locks the row. */
export const findOtherHolder = (tx: Db, { account_id, domain }: Pick<ReservedDomainRow, 'account_id' | 'domain'>) =>
  maybeOne<ReservedDomainRow>(
    tx,
    sql`
    select ${columns} from reserved_domains d
    where d.domain = ${domain} and ${holds} and d.account_id <> ${account_id} for update`,
  )

/**
 * Binds the account's hostports to the domain, which they then protect from deletion, unless a closer domain of the
 * account covers them.
 */
export const bindHostports = (tx: Db, { account_id, id, domain }: ReservedDomainRow) =>
  later(
    tx,
    sql`
    update hostports h set reserved_domain_id = ${id}
    where h.account_id = ${account_id} and h.hostport like '%:443'
      and hostport_claim(h.hostport) collate "C" >= hostport_claim(${`${domain}:443`})
      and hostport_claim(h.hostport) collate "C" < left(hostport_claim(${`${domain}:443`}), -1) || '/'
      and not exists (
        select from reserved_domains d
        where d.account_id = h.account_id and d.id = h.reserved_domain_id and length(d.domain) >= ${domain.length})`,
  )

/** Takes the domains unchecked for longest, and marks them as checked so that no other process takes them. */
export const takeUnchecked = (db: Db, before: { verified: string; failing: string }, now: string, limit: number) =>
  many<ReservedDomainRow>(
    db,
    sql`
    update reserved_domains d set checked_at = ${now}
    from (
      select account_id, id from reserved_domains
      where (status = 'verified' and checked_at < ${before.verified})
        or (status = 'failing' and checked_at < ${before.failing})
      order by checked_at limit ${limit} for update skip locked
    ) due
    where d.account_id = due.account_id and d.id = due.id
    returning ${columns}`,
  )

export const countByStatus = async (db: Db): Promise<Record<DomainStatus, number>> => {
  const rows = await many<{ status: DomainStatus; count: number }>(
    db,
    sql`select status, count(*) from reserved_domains group by status`,
  )
  const counts = { pending: 0, verified: 0, failing: 0, lapsed: 0, assigned: 0 }
  for (const { status, count } of rows) counts[status] = count
  return counts
}
