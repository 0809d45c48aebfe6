import { deleteUnlessReferenced } from '../../db/in_use.ts'
import { type Db, many, maybeOne, one } from '../../db/pool.ts'
import { nothing, sql } from '../../db/sql.ts'
import { certificateExpiry } from '../../health/facts.ts'
import type { Caller } from '../../identity/caller.ts'
import type { CheckedCertificate } from '../../kernel/crypto/certificate.ts'
import type { SecretsBox } from '../../kernel/crypto/secrets_box.ts'
import { Refusal } from '../../kernel/errors.ts'
import { type Id, newUuid, toId, toUuid, type Uuid } from '../../kernel/ids.ts'
import { type PageQuery, rowsToFetch } from '../../kernel/paging.ts'
import type { AnnotationColumns } from '../../operations/annotations.ts'
import { type CertificateFacts, factsOf } from './facts.ts'

export type TlsCertificateRow = AnnotationColumns & {
  id: Uuid
  source: 'uploaded' | 'acme'
  created_at: string
  issued_at: string
  certificate_pem: string
  not_before: string
  not_after: string
  facts: CertificateFacts
  expiry: 'later' | 'soon' | 'expired'
  /** Ids of domains. */
  used_by: Uuid[]
}
type Account = Pick<Caller, 'accountId'>

const columns = sql`c.id, c.source, c.description, c.metadata, c.created_at, c.issued_at, c.certificate_pem, c.not_before,
      c.not_after, c.facts, ${certificateExpiry} as expiry`
const shownUsers = 100
const usedBy = sql`array(
      select d.id from reserved_domains d where d.account_id = c.account_id and d.certificate_id = c.id
      order by d.id limit ${shownUsers}) as used_by`
const certificates = sql`select ${columns}, ${usedBy} from tls_certificates c`

/** Binds a sealed private key to its row. */
const contextOf = (accountId: Uuid, id: Uuid): string => `tls_certificates ${accountId} ${id}`

type Stored = Pick<CheckedCertificate, 'chain' | 'key' | 'leaf' | 'keyType'>

/** Columns of a new or replaced certificate. */
function writtenOf({ accountId }: Account, id: Uuid, { chain, key, leaf, keyType }: Stored, box: SecretsBox) {
  const { keyId, sealed } = box.seal(key, contextOf(accountId, id))
  return {
    chain,
    sealed,
    keyId,
    notBefore: leaf.validFromDate.toISOString(),
    notAfter: leaf.validToDate.toISOString(),
    facts: JSON.stringify(factsOf({ leaf, keyType })),
  }
}

export function createCertificate(
  tx: Db,
  account: Account,
  certificate: Stored & AnnotationColumns & { source: TlsCertificateRow['source'] },
  box: SecretsBox,
): Promise<TlsCertificateRow> {
  const id = newUuid()
  const { chain, sealed, keyId, notBefore, notAfter, facts } = writtenOf(account, id, certificate, box)
  return one<TlsCertificateRow>(
    tx,
    sql`
    insert into tls_certificates as c
      (account_id, id, source, description, metadata, certificate_pem, private_key, secrets_key_id, not_before, not_after, facts)
    values (${account.accountId}, ${id}, ${certificate.source}, ${certificate.description}, ${certificate.metadata},
      ${chain}, ${sealed}, ${keyId}, ${notBefore}, ${notAfter}, ${facts})
    returning ${columns}, '{}'::uuid[] as used_by`,
  )
}

/** Requires a lock on the certificate, which prevents new attachments. */
export const domainsUsing = async (tx: Db, { accountId }: Account, id: Uuid): Promise<string[]> => {
  const rows = await many<{ domain: string }>(
    tx,
    sql`select domain from reserved_domains where account_id = ${accountId} and certificate_id = ${id} order by domain`,
  )
  return rows.map(({ domain }) => domain)
}

/** The row keeps its id, so its users get chain and key together and are never without a certificate. */
export async function replaceCertificate(
  tx: Db,
  account: Account,
  before: TlsCertificateRow,
  certificate: Stored & Pick<TlsCertificateRow, 'source'>,
  box: SecretsBox,
): Promise<TlsCertificateRow> {
  const { chain, sealed, keyId, notBefore, notAfter, facts } = writtenOf(account, before.id, certificate, box)
  const after = await one<TlsCertificateRow>(
    tx,
    sql`
    update tls_certificates c
    set certificate_pem = ${chain}, private_key = ${sealed}, secrets_key_id = ${keyId}, not_before = ${notBefore},
      not_after = ${notAfter}, facts = ${facts}, issued_at = now(), source = ${certificate.source}
    where account_id = ${account.accountId} and id = ${before.id}
    returning ${columns}`,
  )
  return { ...after, used_by: before.used_by }
}

export const findTlsCertificate = (db: Db, { accountId }: Account, id: Id<'cert'>, lock: boolean) =>
  maybeOne<TlsCertificateRow>(
    db,
    sql`
    ${certificates}
    where c.account_id = ${accountId} and c.id = ${toUuid(id)} ${lock ? sql`for update of c` : nothing}`,
  )

export const listTlsCertificates = (db: Db, { accountId }: Account, query: PageQuery & { before_id?: Id<'cert'> }) =>
  many<TlsCertificateRow>(
    db,
    sql`
    ${certificates}
    where c.account_id = ${accountId} ${query.before_id ? sql`and c.id < ${toUuid(query.before_id)}` : nothing}
    order by c.id desc
    limit ${rowsToFetch(query)}`,
  )

export async function annotateTlsCertificate(
  tx: Db,
  { accountId }: Account,
  before: TlsCertificateRow,
  { description, metadata }: AnnotationColumns,
): Promise<TlsCertificateRow> {
  await one(
    tx,
    sql`
    update tls_certificates set description = ${description}, metadata = ${metadata}
    where account_id = ${accountId} and id = ${before.id}
    returning id`,
  )
  return { ...before, description, metadata }
}

/** Foreign keys that keep a certificate in use. */
const users = ['reserved_domains_certificate_fk']

export async function deleteTlsCertificate(tx: Db, { accountId }: Account, before: TlsCertificateRow): Promise<void> {
  const statement = sql`delete from tls_certificates where account_id = ${accountId} and id = ${before.id}`
  if (await deleteUnlessReferenced(tx, statement, users)) return
  const names = before.used_by
    .slice(0, 10)
    .map((id) => toId('rd', id))
    .join(', ')
  throw new Refusal(
    'ERR_TLS_CERTIFICATE_IN_USE',
    `This TLS certificate is still used by ${names || 'a domain'}. Give the domain another certificate first.`,
    { details: { used_by: names } },
  )
}

type SealedRow = { account_id: Uuid; id: Uuid; private_key: Buffer; secrets_key_id: string }

/** Throws UnreadableSecret. */
export const openPrivateKey = ({ account_id, id, private_key, secrets_key_id }: SealedRow, box: SecretsBox): string =>
  box.open({ keyId: secrets_key_id, sealed: private_key }, contextOf(account_id, id))

/** Number of private keys per encryption key. */
export const countBySecretsKey = (db: Db) =>
  many<{ secrets_key_id: string; count: number }>(
    db,
    sql`select secrets_key_id, count(*) from tls_certificates group by secrets_key_id order by 1`,
  )

const batchSize = 100

/**
 * Re-encrypts the next private keys with the current key. `after`: the end of the last batch. Waits for rows that are
 * being changed, because the change may have used another key.
 */
export async function resealBatch(
  tx: Db,
  box: SecretsBox,
  after: { account_id: Uuid; id: Uuid },
): Promise<{ last: SealedRow | undefined; resealed: number; unreadable: { id: Id<'cert'>; reason: string }[] }> {
  const rows = await many<SealedRow>(
    tx,
    sql`
    select account_id, id, private_key, secrets_key_id from tls_certificates
    where secrets_key_id <> ${box.keyId} and (account_id, id) > (${after.account_id}, ${after.id})
    order by account_id, id limit ${batchSize} for update`,
  )
  const unreadable: { id: Id<'cert'>; reason: string }[] = []
  let resealed = 0
  for (const row of rows) {
    try {
      const { keyId, sealed } = box.seal(openPrivateKey(row, box), contextOf(row.account_id, row.id))
      await one(
        tx,
        sql`
        update tls_certificates set private_key = ${sealed}, secrets_key_id = ${keyId}
        where account_id = ${row.account_id} and id = ${row.id} returning id`,
      )
      resealed++
    } catch (error) {
      unreadable.push({ id: toId('cert', row.id), reason: (error as Error).message })
    }
  }
  return { last: rows.at(-1), resealed, unreadable }
}

/** Certificates of all accounts that expire next, for metrics. */
export async function firstToExpire(db: Db, count: number) {
  const rows = await many<{ id: Uuid; account_id: Uuid; expires_at: number }>(
    db,
    sql`
    select id, account_id, extract(epoch from not_after)::float8 as expires_at
    from tls_certificates order by not_after, id limit ${count}`,
  )
  return rows.map((row) => ({
    account: toId('ac', row.account_id),
    certificate: toId('cert', row.id),
    expiresAt: row.expires_at,
  }))
}

export const expiryOfCertificates = (db: Db) =>
  one<{ expired: number; day: number; week: number; month: number; later: number; seconds: number | null }>(
    db,
    sql`
    select count(*) filter (where not_after <= now()) as expired,
      count(*) filter (where not_after > now() and not_after <= now() + interval '1 day') as day,
      count(*) filter (where not_after > now() + interval '1 day' and not_after <= now() + interval '7 days') as week,
      count(*) filter (where not_after > now() + interval '7 days' and not_after <= now() + interval '30 days') as month,
      count(*) filter (where not_after > now() + interval '30 days') as later,
      extract(epoch from min(not_after) - now())::float8 as seconds
    from tls_certificates`,
  )
