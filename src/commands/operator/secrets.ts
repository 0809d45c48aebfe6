import type { Config } from '../../config/config.ts'
import type { DbPool } from '../../db/pool.ts'
import { transaction } from '../../db/transaction.ts'
import { ConfigError } from '../../kernel/config_error.ts'
import type { SecretsBox } from '../../kernel/crypto/secrets_box.ts'
import type { Uuid } from '../../kernel/ids.ts'
import { withDatabase } from '../database.ts'
import { sealedStores } from '../sealed_stores.ts'
import { openSecretsBox } from '../secrets_key.ts'

const nil = '00000000-0000-0000-0000-000000000000' as Uuid

/**
 * Rotation without a gap: put a new key above the old one in the file, restart every `serve`, run `rotate`, and remove
 * the old key once `list` no longer shows it.
 */
export function secrets(config: Config, verb: string): Promise<number> {
  const box = openSecretsBox(config)
  if (!box) throw new ConfigError('GATEHOUSE_SECRETS_KEY_FILE is not set')
  return withDatabase(config, async (db) => {
    switch (verb) {
      case 'list':
        return listKeys(db, box)
      case 'rotate':
        return rotate(db, box)
      default:
        console.error("gatehouse: unknown command; expected 'secrets' list or rotate")
        return 2
    }
  })
}

async function listKeys(db: DbPool, box: SecretsBox): Promise<number> {
  const counts = await Promise.all(
    sealedStores.map(
      async ({ countByKey }) => new Map((await countByKey(db)).map((row) => [row.secrets_key_id, row.count])),
    ),
  )
  for (const keyId of new Set([...box.keyIds, ...counts.flatMap((each) => [...each.keys()])])) {
    const note = keyId === box.keyId ? '  current' : box.keyIds.includes(keyId) ? '' : '  not in the file'
    const encrypts = sealedStores.map(({ many }, index) => `${many}: ${counts[index]?.get(keyId) ?? 0}`)
    console.log(`${keyId}  encrypts ${encrypts.join(', ')}${note}`)
  }
  return 0
}

async function rotate(db: DbPool, box: SecretsBox): Promise<number> {
  let resealed = 0
  let unreadable = 0
  for (const { one, reseal } of sealedStores) {
    let after = { account_id: nil, id: nil }
    for (;;) {
      const batch = await transaction(db, (tx) => reseal(tx, box, after))
      for (const { id, reason } of batch.unreadable)
        console.error(`gatehouse: the ${one} of ${id} cannot be read: ${reason}`)
      resealed += batch.resealed
      unreadable += batch.unreadable.length
      if (!batch.last) break
      after = batch.last
    }
  }
  console.log(JSON.stringify({ key_id: box.keyId, encrypted: resealed, unreadable }))
  return unreadable === 0 ? 0 : 1
}
