import type { Db, DbPool } from '../db/pool.ts'
import { transaction } from '../db/transaction.ts'
import { joinNodeKey } from '../publisher/nodes/node_keys.ts'
import { lockJoinToken, noteRefusal, spendJoinToken } from './join_token.ts'
import { newNatsKey } from './nats_jwt.ts'
import { type FleetNode, findFleetNode, insertFleetNode, recordFleetEvent } from './node_store.ts'

/** What a node sends: the public halves of its keys, and the name that it would have. */
export type Joining = {
  readonly token: string
  readonly name: string
  readonly user: string
  readonly nodeKey: string
  readonly sourceIp: string | undefined
}
export type JoinedNode = Pick<FleetNode, 'name' | 'account' | 'user'>
type Refused = 'unknown' | 'expired' | 'used' | 'name taken'

/**
 * Trades a token for a place in the fleet. `admit` runs before anything is committed: if NATS does not answer, the token
 * can be used again. The same node may ask twice, because it cannot know whether a lost answer was a yes.
 */
export async function joinFleet(
  db: DbPool,
  joining: Joining,
  admit: (node: JoinedNode) => Promise<unknown>,
): Promise<JoinedNode | Refused> {
  const { token, sourceIp } = joining
  const outcome = await transaction(db, async (tx) => {
    const found = await lockJoinToken(tx, token)
    if (!found) return 'unknown'
    const name = found.name ?? joining.name
    if (found.usedBy !== null) {
      const again = await sameNode(tx, found.usedBy, { ...joining, name })
      if (again) await admit(again)
      return again ?? 'used'
    }
    if (found.isExpired) return 'expired'
    const node = {
      name,
      account: newNatsKey('account').publicKey,
      user: joining.user,
      nodeKey: joining.nodeKey,
    }
    if (!(await insertFleetNode(tx, node))) return 'name taken'
    await spendJoinToken(tx, token, node.account)
    await joinNodeKey(tx, node.name, node.nodeKey)
    await recordFleetEvent(tx, { operation: 'joined', node: node.name, sourceIp, detail: node.user })
    await admit(node)
    return node
  })
  if (typeof outcome === 'string' && outcome !== 'unknown' && (await noteRefusal(db, token)))
    await recordFleetEvent(db, {
      operation: 'join_refused',
      node: joining.name,
      sourceIp,
      detail: `join token: ${outcome}`,
    })
  return outcome
}

async function sameNode(tx: Db, account: string, { name, user, nodeKey }: Joining): Promise<JoinedNode | undefined> {
  const node = await findFleetNode(tx, name)
  const isSame = node?.account === account && node.user === user && node.nodeKey === nodeKey
  return isSame ? node : undefined
}
