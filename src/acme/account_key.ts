import { type Db, many, maybeOne, one, run } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import type { SecretsBox } from '../kernel/crypto/secrets_box.ts'
import { forgetOrdersSealedBefore } from './order_leases.ts'

const contextOf = (directoryUrl: string) => `acme_accounts ${directoryUrl}`
type Row = { directory_url: string; private_key: Buffer; secrets_key_id: string }

/** The key of the installation's account with an authority. The first process to store one wins. */
export async function accountKeyOf(
  db: Db,
  directoryUrl: string,
  box: SecretsBox,
  newKey: () => string,
): Promise<string> {
  const known = await maybeOne<Row>(db, sql`select * from acme_accounts where directory_url = ${directoryUrl}`)
  const { private_key, secrets_key_id } = known ?? (await storeKey(db, directoryUrl, box, newKey()))
  return box.open({ keyId: secrets_key_id, sealed: private_key }, contextOf(directoryUrl))
}

function storeKey(db: Db, directoryUrl: string, box: SecretsBox, key: string): Promise<Row> {
  const { keyId, sealed } = box.seal(key, contextOf(directoryUrl))
  return one<Row>(
    db,
    sql`
    insert into acme_accounts as a (directory_url, private_key, secrets_key_id)
    values (${directoryUrl}, ${sealed}, ${keyId})
    on conflict (directory_url) do update set directory_url = a.directory_url
    returning *`,
  )
}

/** Counts encrypted account and order keys per encryption key. */
export const countAcmeKeys = (db: Db) =>
  many<{ secrets_key_id: string; count: number }>(
    db,
    sql`
    select secrets_key_id, count(*) from (
      select secrets_key_id from acme_accounts
      union all select secrets_key_id from acme_orders where secrets_key_id is not null) encrypted
    group by secrets_key_id order by 1`,
  )

/** Encrypts the account keys with the current key. There is one per authority, so one transaction suffices. */
export async function resealAcmeKeys(tx: Db, box: SecretsBox) {
  await forgetOrdersSealedBefore(tx, box)
  const rows = await many<Row>(tx, sql`select * from acme_accounts where secrets_key_id <> ${box.keyId} for update`)
  const unreadable: { id: string; reason: string }[] = []
  for (const { directory_url, private_key, secrets_key_id } of rows) {
    const context = contextOf(directory_url)
    try {
      const { keyId, sealed } = box.seal(box.open({ keyId: secrets_key_id, sealed: private_key }, context), context)
      await run(
        tx,
        sql`
        update acme_accounts set private_key = ${sealed}, secrets_key_id = ${keyId} where directory_url = ${directory_url}`,
      )
    } catch (error) {
      unreadable.push({ id: directory_url, reason: (error as Error).message })
    }
  }
  return { last: undefined, resealed: rows.length - unreadable.length, unreadable }
}
