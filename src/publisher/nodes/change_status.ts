import { setTimeout } from 'node:timers/promises'
import { type DbPool, many } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import { maxWaves } from '../../kernel/edge/cells.ts'
import type { ChangeStatus, EdgeNode, NodeStatus } from '../../kernel/edge/edge_nodes.ts'
import { toId, type Uuid } from '../../kernel/ids.ts'
import { cellsOf } from '../../operations/placement.ts'
import { laterWaves } from '../waves/waves.ts'
import { withheldAt } from '../withheld.ts'
import { type EdgeNodes, hasApplied } from './nodes.ts'

/**
 * A node advances to later generations without a record that was withheld from it. The query runs after the nodes'
 * reports, because the publisher records it before sending. If the database does not answer, no node counts as having
 * applied the change.
 */
async function withoutWithheld(db: DbPool, generation: number, status: NodeStatus): Promise<ChangeStatus> {
  const withheld = await withheldAt(db, generation).catch(() => undefined)
  if (withheld?.length === 0) return { ...status, withheld }
  return { live: status.live, applied: [], behind: status.live, withheld: withheld ?? [] }
}

const namesOfCells = async (db: DbPool, accountId: Uuid): Promise<Set<string>> =>
  new Set((await cellsOf(db, accountId)).map(({ name }) => name))

const lookAgainMs = 1_000
/** Limits the requests of an account that wait for rollouts, because each of them polls the database. */
const waitAtOnce = 10

type Released = {
  cell: string
  reached: number
  /** The generation under which the last of these waves received the change. */
  generation: number
  isHalted: boolean
}

/** The progress of a change in each cell of the account. A cell is missing until its publisher has seen the change. */
const progressOf = (db: DbPool, accountId: Uuid, generation: number): Promise<Released[]> =>
  many<Released>(
    db,
    sql`
    select c.name as cell,
      case when r.id is null or r.ended_at is not null then ${maxWaves}::int else r.reached end as reached,
      greatest(${generation}::bigint, r.open_until, r.released_as) as generation,
      r.ended_at is null and r.reached < 0 as "isHalted"
    from cells c join publisher_state s on s.cell_id = c.id left join lateral (
      select * from rollouts o
      where o.cell_id = c.id and o.account_id = ${accountId} and o.since <= ${generation} and o.open_until >= ${generation}
      order by o.ended_at is null desc, o.id desc limit 1) r on true
    where is_placed(${accountId}, c.id) and (c.waves = 1 or s.classified >= ${generation})`,
  )

/** Which nodes of all waves are known to have the change. */
async function statusOfAll(
  db: DbPool,
  nodes: EdgeNodes,
  generation: number,
  accountId: Uuid,
): Promise<{ status: NodeStatus; isHalted: boolean }> {
  const cells = await namesOfCells(db, accountId)
  const progress = new Map((await progressOf(db, accountId, generation)).map((each) => [each.cell, each]))
  const waves = await laterWaves(db)
  const live = nodes.all().filter((node) => node.live && cells.has(node.cell))
  const has = (node: EdgeNode) => {
    const of = progress.get(node.cell)
    return of !== undefined && (waves.get(node.node) ?? 0) <= of.reached && hasApplied(node, of.generation)
  }
  const { true: applied = [], false: behind = [] } = Object.groupBy(live, (node) => `${has(node)}` as const)
  return { status: { live, applied, behind }, isHalted: [...progress.values()].some(({ isHalted }) => isHalted) }
}

function waitingForAll(db: DbPool, nodes: EdgeNodes) {
  const waiting = new Map<Uuid, number>()
  return {
    async waitForAll(generation: number, accountId: Uuid, timeoutMs: number) {
      const others = waiting.get(accountId) ?? 0
      const until = performance.now() + (others < waitAtOnce ? timeoutMs : 0)
      waiting.set(accountId, others + 1)
      try {
        for (;;) {
          const { status, isHalted } = await statusOfAll(db, nodes, generation, accountId)
          if (isHalted || status.behind.length === 0 || performance.now() >= until)
            return await withoutWithheld(db, generation, status)
          await setTimeout(lookAgainMs)
        }
      } finally {
        const left = (waiting.get(accountId) ?? 1) - 1
        if (left > 0) waiting.set(accountId, left)
        else waiting.delete(accountId)
      }
    },
  }
}

/**
 * Which nodes of the account's cells have applied a change, by their own reports and except what was withheld from them.
 */
export const changeStatus = (db: DbPool, nodes: EdgeNodes) => ({
  ...waitingForAll(db, nodes),
  async status(generation: number, accountId: Uuid) {
    return withoutWithheld(db, generation, nodes.status(generation, await namesOfCells(db, accountId)))
  },
  async waitFor(generation: number, accountId: Uuid, timeoutMs: number) {
    const cells = await namesOfCells(db, accountId)
    return withoutWithheld(db, generation, await nodes.waitFor(generation, cells, timeoutMs))
  },
  async rolloutsOf(accountId: Uuid) {
    const open = await many<{ public_id: Uuid; isHalted: boolean }>(
      db,
      sql`
      select public_id, reached < 0 as "isHalted" from rollouts where account_id = ${accountId} and ended_at is null order by id`,
    )
    return open.map(({ public_id, isHalted }) => ({ id: toId('ro', public_id), isHalted }))
  },
})
