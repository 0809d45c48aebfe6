import { type Db, later, many, maybeOne, one } from '../../db/pool.ts'
import { nothing, sql } from '../../db/sql.ts'
import type { Caller } from '../../identity/caller.ts'
import type { SecretsBox } from '../../kernel/crypto/secrets_box.ts'
import { type Id, newUuid, toUuid, type Uuid } from '../../kernel/ids.ts'
import { type PageQuery, rowsToFetch } from '../../kernel/paging.ts'
import type { DestinationFormat } from './schema.ts'
import { sealWebhookSecret } from './secrets.ts'

type Account = Pick<Caller, 'accountId'>

export type DestinationRow = {
  id: Uuid
  url: string
  format: DestinationFormat
  description: string | null
  metadata: string | null
  operations: readonly string[]
  enabled: boolean
  disabled_reason: string | null
  previous_secret_expires_at: string | null
  created_at: string
  failing_since: string | null
  last_delivered_at: string | null
  skipped: number
}
export type DestinationFields = Pick<
  DestinationRow,
  'url' | 'format' | 'description' | 'metadata' | 'operations' | 'enabled'
>

const destinations = sql`
    select d.id, d.url, d.format, d.description, d.metadata, d.operations, d.enabled, d.disabled_reason, d.created_at,
      case when d.previous_secret_expires_at > statement_timestamp() then d.previous_secret_expires_at end
        as previous_secret_expires_at,
      p.failing_since, p.last_delivered_at, p.skipped
    from webhook_destinations d
      join webhook_progress p on p.account_id = d.account_id and p.destination_id = d.id`

/** Resolves to undefined if the account's quota is used up. Sends everything that is committed from now on. */
export async function insertDestination(
  tx: Db,
  { accountId }: Account,
  { secret, ...fields }: DestinationFields & { secret: string },
  box: SecretsBox,
): Promise<DestinationRow> {
  const id = newUuid()
  const { sealed, keyId } = sealWebhookSecret(secret, accountId, id, box)
  await later(
    tx,
    sql`
    insert into webhook_destinations (account_id, id, url, format, description, metadata, operations, enabled, sealed_secret,
      secret_key_id)
    values (${accountId}, ${id}, ${fields.url}, ${fields.format}, ${fields.description}, ${fields.metadata},
      ${fields.operations}::text[], ${fields.enabled}, ${sealed}, ${keyId})`,
  )
  await later(
    tx,
    sql`
    insert into webhook_progress (account_id, destination_id, position, event_id)
    values (${accountId}, ${id}, settled_audit_position(), ${newUuid()})`,
  )
  return one<DestinationRow>(tx, sql`${destinations} where d.account_id = ${accountId} and d.id = ${id}`)
}

/** Not `for update`, which would block additions of deliveries while they hold the progress. */
const findByUuid = (db: Db, accountId: Uuid, id: Uuid, lock: boolean) =>
  maybeOne<DestinationRow>(
    db,
    sql`${destinations} where d.account_id = ${accountId} and d.id = ${id} ${lock ? sql`for no key update of d` : nothing}`,
  )

export const findDestination = (db: Db, { accountId }: Account, id: Id<'whd'>, lock: boolean) =>
  findByUuid(db, accountId, toUuid(id), lock)

export const listDestinations = (db: Db, { accountId }: Account, query: PageQuery & { before_id?: Id<'whd'> }) =>
  many<DestinationRow>(
    db,
    sql`
    ${destinations}
    where d.account_id = ${accountId} ${query.before_id ? sql`and d.id < ${toUuid(query.before_id)}` : nothing}
    order by d.id desc
    limit ${rowsToFetch(query)}`,
  )

/** Retries waiting deliveries now, because the change may have fixed them. */
export async function updateDestination(
  tx: Db,
  { accountId }: Account,
  id: Uuid,
  fields: DestinationFields & Pick<DestinationRow, 'disabled_reason'>,
): Promise<void> {
  await later(
    tx,
    sql`
    update webhook_destinations
    set url = ${fields.url}, format = ${fields.format}, description = ${fields.description}, metadata = ${fields.metadata},
      operations = ${fields.operations}::text[], enabled = ${fields.enabled}, disabled_reason = ${fields.disabled_reason}
    where account_id = ${accountId} and id = ${id}`,
  )
  if (!fields.enabled) return
  await later(
    tx,
    sql`
    update webhook_progress
    set wake_at = statement_timestamp(), failing_since = null,
      leased_until = case when leased_by is null then null else leased_until end
    where account_id = ${accountId} and destination_id = ${id}`,
  )
  await later(
    tx,
    sql`
    update webhook_deliveries set next_attempt_at = statement_timestamp()
    where account_id = ${accountId} and destination_id = ${id} and status = 'pending'`,
  )
}

export const rotateSecret = (
  tx: Db,
  { accountId }: Account,
  id: Id<'whd'>,
  { secret, overlapSeconds }: { secret: string; overlapSeconds: number },
  box: SecretsBox,
) => {
  const { sealed, keyId } = sealWebhookSecret(secret, accountId, toUuid(id), box)
  // The replaced secret keeps its encryption key.
  return later(
    tx,
    sql`
    update webhook_destinations
    set previous_secret = secret, sealed_previous_secret = sealed_secret, previous_secret_key_id = secret_key_id,
      secret = null, sealed_secret = ${sealed}, secret_key_id = ${keyId},
      previous_secret_expires_at = statement_timestamp() + make_interval(secs => ${overlapSeconds})
    where account_id = ${accountId} and id = ${toUuid(id)}`,
  )
}

export async function deleteDestination(tx: Db, { accountId }: Account, id: Id<'whd'>): Promise<void> {
  // Locked first, as in all changes of deliveries.
  await later(
    tx,
    sql`select from webhook_progress where account_id = ${accountId} and destination_id = ${toUuid(id)} for update`,
  )
  await later(tx, sql`delete from webhook_destinations where account_id = ${accountId} and id = ${toUuid(id)}`)
}
