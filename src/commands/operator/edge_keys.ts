import type { Config } from '../../config/config.ts'
import { transaction } from '../../db/transaction.ts'
import { nodeKeyFingerprint } from '../../distribution/delivery.ts'
import { acceptNodeKey, listNodeKeys, revokeNodeKey } from '../../publisher/nodes/node_keys.ts'
import { withDatabase } from '../database.ts'
import { requireSecretsBox } from '../secrets_key.ts'

/** Manages which edge node keys receive certificate private keys. A running `serve` sends changes within seconds. */
export const edgeKeys = (config: Config, verb: string, [node, fingerprint]: readonly string[]): Promise<number> =>
  withDatabase(config, async (db) => {
    switch (verb) {
      case 'list':
        for (const row of await listNodeKeys(db))
          console.log(
            `${row.node}  ${nodeKeyFingerprint(row.public_key)}  ${row.first_seen_at}  ${row.accepted ? 'accepted' : 'waiting'}`,
          )
        return 0
      case 'accept': {
        const box = requireSecretsBox(config)
        if (node && fingerprint && (await transaction(db, (tx) => acceptNodeKey(tx, node, fingerprint, box)))) return 0
        console.error(
          "gatehouse: no such key is waiting. Use a node and fingerprint that 'gatehouse edge-keys list' prints",
        )
        return 1
      }
      case 'revoke': {
        const box = requireSecretsBox(config)
        if (!node || !(await transaction(db, (tx) => revokeNodeKey(tx, node, box)))) {
          console.error('gatehouse: the node has no accepted key')
          return 1
        }
        console.error(
          `The other nodes of its cell get a new key. Every key that ${node} reports from now on waits for 'gatehouse edge-keys accept'`,
        )
        return 0
      }
      default:
        console.error("gatehouse: unknown command; expected 'edge-keys' list, accept or revoke")
        return 2
    }
  })
