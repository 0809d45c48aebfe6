import { type Db, many } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import type { Report } from '../../distribution/channels.ts'
import type { Clock } from '../../kernel/clock.ts'
import { type Id, isId, toUuid, type Uuid } from '../../kernel/ids.ts'
import type { EdgeNodes, ReportListener } from './nodes.ts'
import type { IsActive } from './reported_hits.ts'

/** Kinds of ids in nodes' messages. */
const kinds = ['ac', 'ipx', 'edgtcp', 'edghtsrt', 'bkdst'] as const
type Kind = (typeof kinds)[number]
type Named = Id<Kind>
const isNamed = (text: string): text is Named => kinds.some((kind) => isId(kind, text))

/** How long a belief is cached after the account has left the cell: nodes name the same ids over and over. */
const believedForMs = 10_000
const maxBelieved = 100_000
/**
 * Limits the reports of a node that wait for the database. Further ones get no answer, so the node sends their counts
 * again.
 */
const maxWaiting = 16

/**
 * Finds the ids of accounts that are not placed in the cell. Ids that do not exist are dropped when the counts are
 * written.
 */
export type FindOthers = (cell: string, named: readonly string[]) => Promise<ReadonlySet<string>>

/**
 * Finds which ids in a node's message belong to accounts outside its cell. A stolen node must not be believed about
 * accounts that it does not serve.
 */
export function createFindOthers(db: Db, clock: Clock): FindOthers {
  const believed = new Map<string, number>()
  return async (cell, named) => {
    const now = clock()
    const asked = [...new Set(named.filter(isNamed))].filter((id) => (believed.get(`${cell} ${id}`) ?? 0) <= now)
    if (asked.length === 0) return new Set()
    const placed = await readPlaced(db, cell, asked)
    if (believed.size + placed.size > maxBelieved) believed.clear()
    for (const [id, isPlaced] of placed) if (isPlaced) believed.set(`${cell} ${id}`, now + believedForMs)
    return new Set([...placed].filter(([, isPlaced]) => !isPlaced).map(([id]) => id))
  }
}

async function readPlaced(db: Db, cell: string, ids: readonly Named[]): Promise<Map<Named, boolean>> {
  const of = (...wanted: Kind[]) => ids.filter((id) => wanted.some((kind) => isId(kind, id)))
  const [accounts, restrictions, edges, backends] = [of('ac'), of('ipx'), of('edgtcp', 'edghtsrt'), of('bkdst')]
  const rows = await many<{ place: number; id: Uuid; placed: boolean }>(
    db,
    sql`
    select n.place, n.id, is_placed(n.account_id, (select id from cells where name = ${cell})) as placed from (
      select 0 as place, id, id as account_id from accounts where id = any(${accounts.map(toUuid)}::uuid[])
      union all select 1, id, account_id from ip_restrictions where id = any(${restrictions.map(toUuid)}::uuid[])
      union all select 2, id, account_id from edges where id = any(${edges.map(toUuid)}::uuid[])
      union all select 3, id, account_id from backends where id = any(${backends.map(toUuid)}::uuid[])) n`,
  )
  const found = new Map(rows.map(({ place, id, placed }) => [`${place} ${id}`, placed]))
  const placed = new Map<Named, boolean>()
  for (const [place, its] of [accounts, restrictions, edges, backends].entries())
    for (const id of its) {
      const isPlaced = found.get(`${place} ${toUuid(id)}`)
      if (isPlaced !== undefined) placed.set(id, isPlaced)
    }
  return placed
}

type Parts = { findOthers: FindOthers; isActive: IsActive; onDropped: (node: string, parts: number) => void }

/**
 * The reports of the cells in which this process publishes, without the parts about accounts of other cells. Reports of
 * one node stay in order. Passes nothing on while the database does not answer.
 */
export function believedReports(
  nodes: Pick<EdgeNodes, 'onReport'>,
  { findOthers, isActive, onDropped }: Parts,
): Pick<EdgeNodes, 'onReport'> {
  const listeners: ReportListener[] = []
  const waiting = new Map<string, { last: Promise<void>; count: number }>()
  nodes.onReport((report, cell, answer) => {
    if (!isActive(cell)) return
    const sender = `${cell} ${report.node}`
    const { last, count } = waiting.get(sender) ?? { last: Promise.resolve(), count: 0 }
    if (count >= maxWaiting) return
    const passOn = async () => {
      const others = await findOthers(cell, namedIn(report))
      if (others.size > 0) onDropped(report.node, others.size)
      for (const listener of listeners) listener(without(others, report), cell, answer)
    }
    const done = () => {
      const state = waiting.get(sender)
      if (state && --state.count === 0) waiting.delete(sender)
    }
    waiting.set(sender, { last: last.then(passOn).then(done, done), count: count + 1 })
  })
  return { onReport: (listener) => void listeners.push(listener) }
}

const namedIn = ({ hits, allowed = [], health = [], ruleHits, traffic }: Report): string[] => [
  ...hits.flatMap(({ restriction, target }) => [restriction ?? '', target ?? '']),
  ...allowed.map(({ target }) => target),
  ...health.map(({ backend }) => backend),
  ...(ruleHits?.hits ?? []).map(({ account }) => account),
  ...(traffic?.counts ?? []).map(({ account }) => account),
]

function without(others: ReadonlySet<string>, report: Report): Report {
  const { hits, allowed, health, ruleHits, traffic } = report
  return {
    ...report,
    hits: hits.filter(({ restriction, target = '' }) => !others.has(restriction ?? '') && !others.has(target)),
    ...(allowed && { allowed: allowed.filter(({ target }) => !others.has(target)) }),
    ...(health && { health: health.filter(({ backend }) => !others.has(backend)) }),
    ...(traffic && { traffic: { ...traffic, counts: traffic.counts.filter(({ account }) => !others.has(account)) } }),
    ...(ruleHits && { ruleHits: { ...ruleHits, hits: ruleHits.hits.filter(({ account }) => !others.has(account)) } }),
  }
}
