import { type Db, many, maybeOne, run } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { createSigner, newSigningKey, type Signer, type TrustedKeys, trustedKeys } from '../distribution/signature.ts'

export type SigningKeyRow = { public_key: string; active: boolean; created_at: string }

/** The key that records are signed with, or undefined before the first one was made. */
export async function activeSigner(db: Db): Promise<Signer | undefined> {
  const row = await maybeOne<{ public_key: string; private_key: string }>(
    db,
    sql`select public_key, private_key from signing_keys where active`,
  )
  return row && createSigner(row.public_key, row.private_key)
}

/** Every key that records in the bucket may be signed with. */
export async function trustedSigningKeys(db: Db): Promise<TrustedKeys> {
  const rows = await many<{ public_key: string }>(db, sql`select public_key from signing_keys`)
  return trustedKeys(rows.map(({ public_key }) => public_key))
}

export const listSigningKeys = (db: Db) =>
  many<SigningKeyRow>(db, sql`select public_key, active, created_at from signing_keys order by created_at`)

/** A new key, not used until it is activated: every node must trust it first. The first one is active at once. */
export async function addSigningKey(db: Db): Promise<SigningKeyRow> {
  const { publicKey, privateKey } = newSigningKey()
  await run(
    db,
    sql`
    insert into signing_keys (public_key, private_key, active)
    select ${publicKey}, ${privateKey}, not exists (select from signing_keys where active)`,
  )
  const row = (await listSigningKeys(db)).find(({ public_key }) => public_key === publicKey)
  if (!row) throw new Error('the signing key that was just created is missing')
  return row
}

/** Resolves to false when there is no such key. */
export async function activateSigningKey(tx: Db, publicKey: string): Promise<boolean> {
  await run(tx, sql`update signing_keys set active = false where active and public_key <> ${publicKey}`)
  return (
    (await maybeOne(
      tx,
      sql`update signing_keys set active = true where public_key = ${publicKey} returning public_key`,
    )) !== undefined
  )
}
