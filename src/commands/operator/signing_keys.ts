import type { Config } from '../../config/config.ts'
import { transaction } from '../../db/transaction.ts'
import { activateSigningKey, addSigningKey, listSigningKeys } from '../../publisher/signing_keys.ts'
import { withDatabase } from '../database.ts'
import { openSecretsBox } from '../secrets_key.ts'

/**
 * Rotation without a gap: `add` a key, let every edge node trust it (GATEHOUSE_EDGE_TRUSTED_KEYS), `activate` it, and
 * remove the old one from the nodes' lists. The publisher re-signs every record after the activation.
 */
export const signingKeys = (config: Config, verb: string, publicKey: string | undefined): Promise<number> =>
  withDatabase(config, async (db) => {
    switch (verb) {
      case 'list':
        for (const { public_key, active, created_at } of await listSigningKeys(db)) {
          console.log(`${public_key}  ${created_at}${active ? '  active' : ''}`)
        }
        return 0
      case 'add': {
        const { public_key, active } = await addSigningKey(db, openSecretsBox(config))
        console.log(public_key)
        if (!active)
          console.error(
            "The key is not used yet. Add it to GATEHOUSE_EDGE_TRUSTED_KEYS on every edge node, then run 'gatehouse signing-keys activate <key>'.",
          )
        return 0
      }
      case 'activate': {
        if (publicKey && (await transaction(db, (tx) => activateSigningKey(tx, publicKey)))) return 0
        console.error("gatehouse: unknown key. Use one that 'gatehouse signing-keys list' prints")
        return 1
      }
      default:
        console.error("gatehouse: unknown command; expected 'signing-keys' list, add or activate")
        return 2
    }
  })
