import { type Db, many, maybeOne, run } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import type { SecretsBox } from '../kernel/crypto/secrets_box.ts'
import { UnreadableSecret } from '../kernel/crypto/unreadable_secret.ts'
import type { NatsOperator } from './nats_accounts.ts'

type Row = { jwt: string; sealed_keys: Buffer; secrets_key_id: string }

const context = 'nats_operator keys'

/** Undefined while NATS has its users in a configuration file. Throws UnreadableSecret. */
export async function loadNatsOperator(db: Db, box: SecretsBox | undefined): Promise<NatsOperator | undefined> {
  const row = await maybeOne<Row>(db, sql`select jwt, sealed_keys, secrets_key_id from nats_operator`)
  return row && open(row, box)
}

function open({ jwt, sealed_keys: sealed, secrets_key_id: keyId }: Row, box: SecretsBox | undefined): NatsOperator {
  if (!box) throw new UnreadableSecret('it is encrypted, and GATEHOUSE_SECRETS_KEY_FILE is not set')
  return { jwt, keys: JSON.parse(box.open({ keyId, sealed }, context)) }
}

/** Resolves to false if there is one already, because all nodes depend on it. */
export async function insertNatsOperator(db: Db, box: SecretsBox, { jwt, keys }: NatsOperator): Promise<boolean> {
  const { keyId, sealed } = box.seal(JSON.stringify(keys), context)
  const inserted = await maybeOne(
    db,
    sql`
    insert into nats_operator (jwt, sealed_keys, secrets_key_id) values (${jwt}, ${sealed}, ${keyId})
    on conflict do nothing returning one`,
  )
  return inserted !== undefined
}

export const countNatsOperatorsBySecretsKey = (db: Db) =>
  many<{ secrets_key_id: string; count: number }>(
    db,
    sql`select secrets_key_id, count(*) from nats_operator group by secrets_key_id`,
  )

/** Encrypts the operator with the current key. */
export async function resealNatsOperator(tx: Db, box: SecretsBox) {
  const row = await maybeOne<Row>(
    tx,
    sql`select jwt, sealed_keys, secrets_key_id from nats_operator where secrets_key_id <> ${box.keyId} for update`,
  )
  const unreadable: { id: string; reason: string }[] = []
  if (!row) return { last: undefined, resealed: 0, unreadable }
  try {
    const { keyId, sealed } = box.seal(JSON.stringify(open(row, box).keys), context)
    await run(tx, sql`update nats_operator set sealed_keys = ${sealed}, secrets_key_id = ${keyId}`)
    return { last: undefined, resealed: 1, unreadable }
  } catch (error) {
    if (!(error instanceof UnreadableSecret)) throw error
    return { last: undefined, resealed: 0, unreadable: [{ id: 'NATS', reason: error.message }] }
  }
}
