import { type Db, type DbPool, many, run } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import { transaction } from '../../db/transaction.ts'
import type { SealedSecret, SecretsBox } from '../../kernel/crypto/secrets_box.ts'
import { UnreadableSecret } from '../../kernel/crypto/unreadable_secret.ts'
import { toId, type Uuid } from '../../kernel/ids.ts'

/** Binds a sealed secret to its row. */
const contextOf = (accountId: Uuid, id: Uuid): string => `webhook_destinations ${accountId} ${id}`

export const sealWebhookSecret = (secret: string, accountId: Uuid, id: Uuid, box: SecretsBox): SealedSecret =>
  box.seal(secret, contextOf(accountId, id))

/** Columns of one secret. `clear`: stored by a version without encryption. */
type Stored = { clear: string | null; sealed: Buffer | null; keyId: string | null }

/** Null if there is none. Throws UnreadableSecret. */
function opened({ clear, sealed, keyId }: Stored, context: string, box: SecretsBox | undefined): string | null {
  if (clear !== null || sealed === null || keyId === null) return clear
  if (!box) throw new UnreadableSecret('it is encrypted, and GATEHOUSE_SECRETS_KEY_FILE is not set')
  return box.open({ keyId, sealed }, context)
}

export type SecretColumns = {
  account_id: Uuid
  id: Uuid
  secret: string | null
  sealed_secret: Buffer | null
  secret_key_id: string | null
  previous_secret: string | null
  sealed_previous_secret: Buffer | null
  previous_secret_key_id: string | null
}

export const secretColumns = sql`d.account_id, d.id, d.secret, d.sealed_secret, d.secret_key_id, d.previous_secret,
      d.sealed_previous_secret, d.previous_secret_key_id`

/** Throws UnreadableSecret. */
export function openWebhookSecrets(
  row: SecretColumns,
  box: SecretsBox | undefined,
): { current: string | null; previous: string | null } {
  const context = contextOf(row.account_id, row.id)
  const current = { clear: row.secret, sealed: row.sealed_secret, keyId: row.secret_key_id }
  const previous = {
    clear: row.previous_secret,
    sealed: row.sealed_previous_secret,
    keyId: row.previous_secret_key_id,
  }
  return { current: opened(current, context, box), previous: opened(previous, context, box) }
}

/** Number of secrets per encryption key. */
export const countWebhookSecretsByKey = (db: Db) =>
  many<{ secrets_key_id: string; count: number }>(
    db,
    sql`
    select key_id as secrets_key_id, count(*)
    from webhook_destinations d, unnest(array[d.secret_key_id, d.previous_secret_key_id]) as key_id
    where key_id is not null
    group by key_id order by 1`,
  )

/** Number of destinations with a plaintext secret, stored by a version without encryption. */
export const countClearWebhookSecrets = async (db: Db): Promise<number> =>
  (
    await many<{ count: number }>(
      db,
      sql`select count(*) from webhook_destinations where secret is not null or previous_secret is not null`,
    )
  )[0]?.count ?? 0

const batchSize = 100

/**
 * Encrypts the next secrets with the current key: plaintext ones and, with `others`, those under other keys. `after`:
 * the end of the last batch. Waits for rows that are being changed.
 */
export async function resealWebhookSecrets(
  tx: Db,
  box: SecretsBox,
  after: { account_id: Uuid; id: Uuid },
  { others }: { others: boolean },
): Promise<{ last: SecretColumns | undefined; resealed: number; unreadable: { id: string; reason: string }[] }> {
  const inClear = sql`(d.secret is not null or d.previous_secret is not null)`
  const rows = await many<SecretColumns>(
    tx,
    sql`
    select ${secretColumns} from webhook_destinations d
    where ${others ? sql`(${inClear} or d.secret_key_id <> ${box.keyId} or d.previous_secret_key_id <> ${box.keyId})` : inClear}
      and (d.account_id, d.id) > (${after.account_id}, ${after.id})
    order by d.account_id, d.id limit ${batchSize} for update`,
  )
  const unreadable: { id: string; reason: string }[] = []
  let resealed = 0
  for (const row of rows) {
    try {
      await reseal(tx, row, box)
      resealed++
    } catch (error) {
      if (!(error instanceof UnreadableSecret)) throw error
      unreadable.push({ id: toId('whd', row.id), reason: error.message })
    }
  }
  return { last: rows.at(-1), resealed, unreadable }
}

function reseal(tx: Db, row: SecretColumns, box: SecretsBox): Promise<void> {
  const { current, previous } = openWebhookSecrets(row, box)
  const seal = (secret: string | null) =>
    secret === null ? undefined : sealWebhookSecret(secret, row.account_id, row.id, box)
  const [now, before] = [seal(current), seal(previous)]
  return run(
    tx,
    sql`
    update webhook_destinations
    set secret = null, sealed_secret = ${now?.sealed ?? null}, secret_key_id = ${now?.keyId ?? null},
      previous_secret = null, sealed_previous_secret = ${before?.sealed ?? null},
      previous_secret_key_id = ${before?.keyId ?? null}
    where account_id = ${row.account_id} and id = ${row.id}`,
  )
}

const nil = '00000000-0000-0000-0000-000000000000' as Uuid

/** Encrypts secrets that a version without encryption stored, one batch per transaction. */
export async function encryptWebhookSecrets(db: DbPool, box: SecretsBox): Promise<void> {
  let after: { account_id: Uuid; id: Uuid } | undefined = { account_id: nil, id: nil }
  while (after) {
    const from: { account_id: Uuid; id: Uuid } = after
    after = (await transaction(db, (tx) => resealWebhookSecrets(tx, box, from, { others: false }))).last
  }
}
