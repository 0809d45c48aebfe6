import { hash } from 'node:crypto'
import { deleteInBatches } from '../db/batches.ts'
import { type Db, later, maybeOne, one } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import type { Handling } from '../http/route.ts'
import { invalidField, Refusal } from '../kernel/errors.ts'

type Request = Pick<Handling<unknown, unknown, unknown>, 'caller' | 'origin' | 'idempotencyKey' | 'params' | 'body'>
/** The part of a response that is stored for repetitions. */
type Repeatable = { body: unknown; generation: number | undefined }
type Kept = { operation: string; request_hash: Buffer; response: string; generation: number | null }

/**
 * Executes a POST with an `Idempotency-Key` once in 24 hours, and answers repetitions with the result of the first.
 * Inserts the key's row before the work, so that a concurrent repetition waits for the first to end.
 */
export async function once<Done extends Repeatable>(
  tx: Db,
  request: Request,
  work: () => Promise<Done>,
): Promise<(Done & { replayed: false }) | (Pick<Done, keyof Repeatable> & { replayed: true })> {
  const { idempotencyKey: key } = request
  if (key === undefined) return { ...(await work()), replayed: false }
  if (!/^[\x21-\x7e]{1,255}$/.test(key))
    throw invalidField('Idempotency-Key', 'must be 1 to 255 printable ASCII characters without spaces')
  const { accountId, ownerId } = request.caller
  const { operation } = request.origin
  const requestHash = hash('sha256', JSON.stringify([request.params, request.body]), 'buffer')
  const taken = await maybeOne(
    tx,
    sql`
    insert into idempotency_keys as k (account_id, owner_id, key, operation, request_hash)
    values (${accountId}, ${ownerId}, ${key}, ${operation}, ${requestHash})
    on conflict (account_id, owner_id, key) do update
      set operation = excluded.operation, request_hash = excluded.request_hash, response = null, generation = null, created_at = now()
      where k.created_at < now() - interval '24 hours'
    returning key`,
  )
  const mine = sql`account_id = ${accountId} and owner_id = ${ownerId} and key = ${key}`
  if (taken) {
    const done = await work()
    await later(
      tx,
      sql`update idempotency_keys set response = ${JSON.stringify(done.body)}, generation = ${done.generation ?? null} where ${mine}`,
    )
    return { ...done, replayed: false }
  }
  const kept = await one<Kept>(
    tx,
    sql`select operation, request_hash, response, generation from idempotency_keys where ${mine}`,
  )
  if (kept.operation !== operation || !kept.request_hash.equals(requestHash)) {
    throw new Refusal(
      'ERR_IDEMPOTENCY_KEY_USED',
      'This Idempotency-Key was already used for a different request. Use a new one.',
    )
  }
  return { body: JSON.parse(kept.response), generation: kept.generation ?? undefined, replayed: true }
}

export const deleteIdempotencyKeys = (db: Db): Promise<number> =>
  deleteInBatches(db, sql`idempotency_keys`, sql`created_at < now() - interval '24 hours'`)
