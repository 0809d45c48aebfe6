import type { Db, DbPool } from '../db/pool.ts'
import { transaction } from '../db/transaction.ts'
import { recountNodes } from '../publisher/nodes/counted.ts'
import { joinNodeKey } from '../publisher/nodes/node_keys.ts'
import { addWaves } from '../publisher/waves/waves.ts'
import {
  type Invitation,
  insertJoinToken,
  lockJoinToken,
  newJoinToken,
  noteRefusal,
  spendJoinToken,
} from './join_token.ts'
import { newNatsKey } from './nats_jwt.ts'
import { type FleetNode, findFleetNode, insertFleetNode, latestFleetEvents, recordFleetEvent } from './node_store.ts'

/** Resolves to a token with which one machine can join, under this name or, with null, under its own. */
export async function inviteNode(db: DbPool, invitation: Invitation): Promise<string> {
  const { cell, wave, name, lifeSeconds } = invitation
  const token = newJoinToken()
  await transaction(db, async (tx) => {
    await insertJoinToken(tx, token, invitation)
    if (await addWaves(tx, cell, wave))
      await recordFleetEvent(tx, { operation: 'wave_added', detail: `${wave} to the cell ${cell.name}` })
    const where = wave === 0 ? `the cell ${cell.name}` : `wave ${wave} of the cell ${cell.name}`
    const detail = `into ${where}, for ${lifeSeconds} seconds`
    await recordFleetEvent(tx, { operation: 'invited', ...(name && { node: name }), detail })
  })
  return token
}

/** Sent by a joining node: the public halves of its keys, and the name that it requests. */
export type Joining = {
  readonly token: string
  readonly name: string
  readonly user: string
  readonly nodeKey: string
  readonly sourceIp: string | undefined
}
export type JoinedNode = Pick<FleetNode, 'name' | 'cell' | 'cellAccount' | 'wave' | 'account' | 'user'> & {
  /** The NATS servers of this node, if they differ from those of all others. */
  readonly leafServers: readonly string[] | null
}
type Refused = 'unknown' | 'expired' | 'used' | 'name taken'

/**
 * Exchanges a token for a place in the fleet. `admit` runs before the commit: if NATS does not answer, the token remains
 * valid. A node may ask twice, because it cannot know what a lost answer said.
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
      const same = await sameNode(tx, found.usedBy, { ...joining, name })
      if (!same) return 'used'
      const again = { ...same, leafServers: found.leafServers }
      await admit(again)
      return again
    }
    if (found.isExpired) return 'expired'
    const node = {
      name,
      cell: found.cell.name,
      cellId: found.cell.id,
      cellAccount: found.cellAccount,
      leafServers: found.leafServers,
      wave: found.wave,
      account: newNatsKey('account').publicKey,
      user: joining.user,
      nodeKey: joining.nodeKey,
    }
    if (!(await insertFleetNode(tx, node))) return 'name taken'
    await spendJoinToken(tx, token, node.account)
    await joinNodeKey(tx, found.cell, node.name, node.nodeKey)
    await recountNodes(tx, found.cell)
    await recordFleetEvent(tx, {
      operation: 'joined',
      node: node.name,
      sourceIp,
      detail: `${node.user} in the cell ${node.cell}`,
    })
    await admit(node)
    return node
  })
  if (typeof outcome === 'string' && (outcome === 'unknown' ? await mayNoteUnknown(db) : await noteRefusal(db, token)))
    await recordFleetEvent(db, {
      operation: 'join_refused',
      node: joining.name,
      sourceIp,
      detail: refusedToken + outcome,
    })
  return outcome
}

const refusedToken = 'join token: '
const hourMs = 60 * 60 * 1_000

/** Records one event per hour, and logs each attempt: a table that anyone can fill would let anyone fill the disk. */
async function mayNoteUnknown(db: DbPool): Promise<boolean> {
  const latest = await latestFleetEvents(db, 200)
  return !latest.some(({ at, detail }) => detail === `${refusedToken}unknown` && Date.parse(at) > Date.now() - hourMs)
}

async function sameNode(tx: Db, account: string, { name, user, nodeKey }: Joining): Promise<FleetNode | undefined> {
  const node = await findFleetNode(tx, name)
  const isSame = node?.account === account && node.user === user && node.nodeKey === nodeKey
  return isSame ? node : undefined
}
