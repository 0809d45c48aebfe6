import { type Db, many, maybeOne, one, run } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { createSigner, newSigningKey, type Signer, type TrustedKeys, trustedKeys } from '../distribution/signature.ts'
import { ConfigError } from '../kernel/config_error.ts'
import type { SecretsBox } from '../kernel/crypto/secrets_box.ts'
import { UnreadableSecret } from '../kernel/crypto/unreadable_secret.ts'

/** Why this process cannot sign records. The message addresses the operator. */
export class CannotSign extends Error {
  override readonly name = 'CannotSign'
  /** An installation without a key is unfinished; one that cannot read its key is broken. */
  readonly level: 'warn' | 'error'
  constructor(level: 'warn' | 'error', message: string) {
    super(message)
    this.level = level
  }
}

export type SigningKeyRow = { public_key: string; active: boolean; created_at: string }

/** `private_key` is plaintext: stored without a secrets key, or before migration 0053. */
type StoredKey = {
  public_key: string
  private_key: string | null
  sealed_private_key: Buffer | null
  secrets_key_id: string | null
}
const storedColumns = sql`public_key, private_key, sealed_private_key, secrets_key_id`

/** Binds a sealed private key to its own public key. */
const contextOf = (publicKey: string): string => `signing_keys ${publicKey}`

/** Throws UnreadableSecret. */
function openPrivateKey(row: StoredKey, box: SecretsBox | undefined): string {
  const { public_key, private_key, sealed_private_key: sealed, secrets_key_id: keyId } = row
  if (private_key !== null) return private_key
  if (!box) throw new UnreadableSecret('it is encrypted, and GATEHOUSE_SECRETS_KEY_FILE is not set')
  if (!sealed || !keyId) throw new UnreadableSecret('it is missing')
  return box.open({ keyId, sealed }, contextOf(public_key))
}

/** The active signing key. Throws CannotSign. */
export async function activeSigner(db: Db, box: SecretsBox | undefined): Promise<Signer> {
  const row = await maybeOne<StoredKey>(db, sql`select ${storedColumns} from signing_keys where active`)
  if (!row) throw new CannotSign('warn', "no signing key. Run 'gatehouse signing-keys add'")
  try {
    return createSigner(row.public_key, openPrivateKey(row, box))
  } catch (error) {
    if (!(error instanceof UnreadableSecret)) throw error
    throw new CannotSign(
      'error',
      `this process cannot read the signing key ${row.public_key}: ${error.message}. It publishes nothing, and edge nodes keep what they have`,
    )
  }
}

/** Every key that may have signed records in the bucket. */
export async function trustedSigningKeys(db: Db): Promise<TrustedKeys> {
  const rows = await many<{ public_key: string }>(db, sql`select public_key from signing_keys`)
  return trustedKeys(rows.map(({ public_key }) => public_key))
}

export const listSigningKeys = (db: Db) =>
  many<SigningKeyRow>(db, sql`select public_key, active, created_at from signing_keys order by created_at`)

/**
 * Adds a key, which is not used until it is activated: every node must trust it first. The first key is active
 * immediately.
 */
export async function addSigningKey(db: Db, box: SecretsBox | undefined): Promise<SigningKeyRow> {
  // Without the box, the new key would be stored in clear beside encrypted ones.
  if (!box && (await countSigningKeysBySecretsKey(db)).length > 0)
    throw new ConfigError('signing keys are encrypted here, so set GATEHOUSE_SECRETS_KEY_FILE as for gatehouse serve')
  const { publicKey, privateKey } = newSigningKey()
  const sealed = box?.seal(privateKey, contextOf(publicKey))
  return one<SigningKeyRow>(
    db,
    sql`
    insert into signing_keys (public_key, private_key, sealed_private_key, secrets_key_id, active)
    select ${publicKey}, ${sealed ? null : privateKey}, ${sealed?.sealed ?? null}, ${sealed?.keyId ?? null},
      not exists (select from signing_keys where active)
    returning public_key, active, created_at`,
  )
}

/** Resolves to false if there is no such key. */
export async function activateSigningKey(tx: Db, publicKey: string): Promise<boolean> {
  await run(tx, sql`update signing_keys set active = false where active and public_key <> ${publicKey}`)
  return (
    (await maybeOne(
      tx,
      sql`update signing_keys set active = true where public_key = ${publicKey} returning public_key`,
    )) !== undefined
  )
}

/** Number of signing keys that each of the operator's keys encrypts. */
export const countSigningKeysBySecretsKey = (db: Db) =>
  many<{ secrets_key_id: string; count: number }>(
    db,
    sql`
    select secrets_key_id, count(*) from signing_keys where secrets_key_id is not null
    group by secrets_key_id order by 1`,
  )

export const countClearSigningKeys = async (db: Db): Promise<number> =>
  (await one<{ count: number }>(db, sql`select count(*) from signing_keys where private_key is not null`)).count

/** Encrypts plaintext keys and those of other operator keys with the current one. All at once, because there are few. */
export async function resealSigningKeys(tx: Db, box: SecretsBox) {
  const rows = await many<StoredKey>(
    tx,
    sql`
    select ${storedColumns} from signing_keys
    where private_key is not null or secrets_key_id <> ${box.keyId} for update`,
  )
  const unreadable: { id: string; reason: string }[] = []
  for (const row of rows) {
    try {
      const { keyId, sealed } = box.seal(openPrivateKey(row, box), contextOf(row.public_key))
      await run(
        tx,
        sql`
        update signing_keys set private_key = null, sealed_private_key = ${sealed}, secrets_key_id = ${keyId}
        where public_key = ${row.public_key}`,
      )
    } catch (error) {
      if (!(error instanceof UnreadableSecret)) throw error
      unreadable.push({ id: row.public_key, reason: error.message })
    }
  }
  return { last: undefined, resealed: rows.length - unreadable.length, unreadable }
}
