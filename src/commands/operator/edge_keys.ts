import type { Config } from '../../config/config.ts'
import type { DbPool } from '../../db/pool.ts'
import { transaction } from '../../db/transaction.ts'
import { nodeKeyFingerprint } from '../../distribution/delivery.ts'
import { ConfigError } from '../../kernel/config_error.ts'
import { listCells } from '../../operations/placement.ts'
import { acceptNodeKey, listNodeKeys, replaceDeliveryKey, revokeNodeKey } from '../../publisher/nodes/node_keys.ts'
import { withDatabase } from '../database.ts'
import { openSecretsBox } from '../secrets_key.ts'

/** Which keys of edge nodes get private keys of certificates. A running `serve` sends what has changed within seconds. */
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
        if (node && fingerprint && (await transaction(db, (tx) => acceptNodeKey(tx, node, fingerprint)))) return 0
        console.error(
          "gatehouse: no such key is waiting. Use a node and fingerprint that 'gatehouse edge-keys list' prints",
        )
        return 1
      }
      case 'revoke': {
        if (!node || !(await revoke(config, db, node))) {
          console.error('gatehouse: the node has no accepted key')
          return 1
        }
        console.error(
          `The other nodes of its cell get a new key. If ${node} can still reach NATS, it may report its key again: close its access too`,
        )
        return 0
      }
      default:
        console.error("gatehouse: unknown command; expected 'edge-keys' list, accept or revoke")
        return 2
    }
  })

/** The node has had the key that encrypts for its cell, so that is replaced. Resolves to false when it has no accepted key. */
async function revoke(config: Config, db: DbPool, node: string): Promise<boolean> {
  const box = openSecretsBox(config)
  if (!box) throw new ConfigError('GATEHOUSE_SECRETS_KEY_FILE is not set as for gatehouse serve')
  return transaction(db, async (tx) => {
    const cellId = (await listNodeKeys(tx)).find((row) => row.node === node && row.accepted)?.cell_id
    const cell = (await listCells(tx)).find(({ id }) => id === cellId)
    if (!cell || !(await revokeNodeKey(tx, node))) return false
    await replaceDeliveryKey(tx, cell, box)
    return true
  })
}
