import { deleteInBatches } from '../db/batches.ts'
import { type Db, type DbPool, many, maybeOne, run } from '../db/pool.ts'
import { type SqlFragment, sql } from '../db/sql.ts'
import { transaction } from '../db/transaction.ts'
import type { RecordKey } from '../distribution/records.ts'
import { rfc3339 } from '../kernel/clock.ts'
import type { RolloutSignal } from '../kernel/edge/rollout_signals.ts'
import { newId, toId, type Uuid } from '../kernel/ids.ts'
import { recordChange } from './audit.ts'
import { type Waves, writeOutbox } from './outbox.ts'

/** A new fault that nodes with the rollout's changes report. Stored with the rollout and shown to people. */
export type Evidence = {
  readonly signal: RolloutSignal
  /** Several names are comma-separated. */
  readonly node: string
  readonly reason: string
  /** Key of the record that the node refused. */
  readonly key?: string
  /** Id of the edge or route. */
  readonly target?: string
  /** Some of the addresses that it refuses now although it had let them in lately. */
  readonly addresses?: readonly string[]
  readonly refused?: number
  readonly let_in?: number
  /** Traffic on these nodes before and after the change, and on nodes without the change meanwhile. */
  readonly before?: Answers
  readonly since?: Answers
  readonly elsewhere?: Answers
}
export type Answers = {
  readonly requests: number
  readonly failed: number
  /** Refused by the application, or by an edge without a route for them. Absent in older evidence. */
  readonly rejected?: number
}

export type StoredRollout = {
  id: number
  public_id: Uuid
  cell_id: number
  cell: string
  account_id: Uuid
  account: string
  state: 'watching' | 'halted' | 'released'
  reached: number
  waves: number
  soak_seconds: number
  halt_addresses: number | null
  halt_addresses_percent: number | null
  halt_errors_percent: number | null
  since: number
  open_until: number
  released_as: number
  is_urgent: boolean
  is_forced: boolean
  reason: string | null
  evidence: readonly Evidence[] | null
  created_at: string
  moved_at: string
  applied_at: string | null
  ended_at: string | null
  keys: RecordKey[]
  /** The bucket of the first wave is complete up to this generation. */
  sent_up_to: number
  /** The account has no earlier open rollout. */
  is_first: boolean
}

export const rollouts = (where: SqlFragment): SqlFragment => sql`
  select r.id, r.public_id, r.cell_id, c.name as cell, r.account_id, a.name as account, r.state, r.reached, c.waves, c.soak_seconds,
    c.halt_addresses, c.halt_addresses_percent, c.halt_errors_percent,
    r.since, r.open_until, r.released_as, r.is_urgent, r.is_forced, r.reason, r.evidence, r.created_at, r.moved_at, r.applied_at,
    r.ended_at, s.cursor as sent_up_to,
    array(select h.key from held_records h where h.rollout_id = r.id order by h.key) as keys,
    not exists (
      select from rollouts o
      where o.cell_id = r.cell_id and o.account_id = r.account_id and o.ended_at is null and o.id < r.id) as is_first
  from rollouts r join cells c on c.id = r.cell_id join accounts a on a.id = r.account_id
    join publisher_state s on s.cell_id = r.cell_id
  where ${where}`

export const openRollouts = (db: Db, cellId: number): Promise<StoredRollout[]> =>
  many<StoredRollout>(db, sql`${rollouts(sql`r.cell_id = ${cellId} and r.ended_at is null`)} order by r.id`)

export const latestRollouts = (db: Db, limit: number): Promise<StoredRollout[]> =>
  many<StoredRollout>(db, sql`${rollouts(sql`true`)} order by r.ended_at is null desc, r.id desc limit ${limit}`)

/** The message tells the operator why a decision is impossible. */
export class RolloutFault extends Error {
  override readonly name = 'RolloutFault'
}

/**
 * Locks the rollout for one decision. Publishers take the same lock to assign changes to rollouts, so read it again
 * after this.
 */
export async function lockRollout(tx: Db, which: SqlFragment): Promise<StoredRollout | undefined> {
  await run(
    tx,
    sql`
    update publisher_state set rollouts_version = rollouts_version + 1
    where cell_id = (select r.cell_id from rollouts r where ${which})`,
  )
  return maybeOne<StoredRollout>(tx, rollouts(which))
}

const deciding = (
  db: DbPool,
  id: number,
  decide: (tx: Db, rollout: StoredRollout) => Promise<unknown>,
): Promise<void> =>
  transaction(db, async (tx) => {
    const rollout = await lockRollout(tx, sql`r.id = ${id}`)
    if (!rollout) throw new RolloutFault(`there is no rollout ${id}`)
    await decide(tx, rollout)
  })

function refuseUndecidable({ ended_at, is_first }: StoredRollout): void {
  if (ended_at) throw new RolloutFault('the rollout has reached all waves')
  if (!is_first) throw new RolloutFault('the rollout waits for an earlier one of the same account')
}

/** Audits a decision of the service or the operator in the account, which also sends webhooks. */
const noteDecision = (
  tx: Db,
  { account_id, public_id, cell, state }: StoredRollout,
  verb: 'halt' | 'resume' | 'release',
  after: object,
): Promise<unknown> =>
  recordChange(
    tx,
    { accountId: account_id, operation: `rollouts.${verb}`, operationId: newId('op') },
    { resourceId: toId('ro', public_id), before: { cell, state }, after: { cell, ...after } },
  )

/** Makes the publisher send each record again as these waves should have it. Resolves to the generation. */
const send = (
  tx: Db,
  { account_id, cell_id }: StoredRollout,
  keys: readonly RecordKey[],
  waves: Waves,
): Promise<number> => writeOutbox(tx, account_id, keys, { id: cell_id }, waves)

/**
 * A judgment applies only to the state that it examined: a person may have released, halted or resumed the rollout
 * meanwhile.
 */
function refuseOther(now: StoredRollout, judged: StoredRollout): void {
  const fields = ['reached', 'moved_at', 'open_until', 'is_urgent', 'is_forced'] as const
  if (fields.some((field) => now[field] !== judged[field])) throw new RolloutFault('the rollout is another one now')
}

/** Releases to the next wave or to all. Waits until the bucket of the first wave is complete; see joinRollouts. */
export const releaseRollout = (db: DbPool, judged: StoredRollout, to: 'next' | 'all'): Promise<void> =>
  deciding(db, judged.id, async (tx, rollout) => {
    const { id } = rollout
    refuseUndecidable(rollout)
    refuseOther(rollout, judged)
    const { reached, waves, open_until, sent_up_to, keys } = rollout
    if (reached < 0) throw new RolloutFault('the rollout is halted')
    if (sent_up_to < open_until) throw new RolloutFault('the first wave does not have the rollout yet; try again')
    const last = waves - 1
    const next = to === 'all' ? last : Math.min(reached + 1, last)
    const isEnd = next >= last
    await run(
      tx,
      sql`
      update rollouts set reached = ${next}, moved_at = now(), applied_at = null,
        state = case when ${isEnd}::boolean then 'released' else state end, ended_at = case when ${isEnd}::boolean then now() end
      where id = ${id}`,
    )
    if (isEnd) {
      await run(tx, sql`delete from held_records where rollout_id = ${id}`)
      await noteDecision(tx, rollout, 'release', { state: 'released', reason: rollout.reason })
    }
    if (next === reached) return
    const generation = await send(tx, rollout, keys, { from: reached + 1, to: next })
    await run(tx, sql`update rollouts set released_as = ${generation} where id = ${id}`)
  })

type Halt = { readonly reason: string; readonly evidence?: readonly Evidence[] }

/** `judged`: set if the judge found the evidence, not a person. */
export const haltRollout = (db: DbPool, id: number, why: Halt, judged?: StoredRollout): Promise<void> =>
  deciding(db, id, async (tx, rollout) => {
    if (judged) refuseOther(rollout, judged)
    await halt(tx, rollout, why)
    const evidence = why.evidence?.slice(0, 10) ?? []
    await noteDecision(tx, rollout, 'halt', { state: 'halted', reason: why.reason, evidence })
  })

/** Adds the account's later changes to the rollout, so that its waves have one consistent state. */
export async function halt(tx: Db, rollout: StoredRollout, { reason, evidence = [] }: Halt): Promise<void> {
  refuseUndecidable(rollout)
  const { id, reached, cell_id, account_id } = rollout
  if (reached < 0) throw new RolloutFault('the rollout is halted already')
  const later = sql`
      select l.id from rollouts l
      where l.cell_id = ${cell_id} and l.account_id = ${account_id} and l.ended_at is null and l.id <> ${id}`
  await run(
    tx,
    sql`
      insert into held_records (rollout_id, key, contents)
      select distinct on (key) ${id}::bigint, key, contents from held_records where rollout_id in (${later}) order by key, rollout_id
      on conflict do nothing`,
  )
  await run(
    tx,
    sql`
      insert into rollout_changes (rollout_id, operation_id)
      select distinct ${id}::bigint, operation_id from rollout_changes where rollout_id in (${later})
      on conflict do nothing`,
  )
  await run(
    tx,
    sql`
      update rollouts set state = 'halted', reached = -1, reason = ${reason}, evidence = ${JSON.stringify(evidence)}::json,
        is_urgent = false, is_forced = false, applied_at = null, moved_at = now(),
        open_until = greatest(open_until, (select max(open_until) from rollouts where id in (${later})))
      where id = ${id}`,
  )
  await run(tx, sql`delete from rollouts where id in (${later})`)
  const keys = await many<{ key: RecordKey }>(tx, sql`select key from held_records where rollout_id = ${id}`)
  const generation = await send(
    tx,
    rollout,
    keys.map(({ key }) => key),
    { from: 0, to: reached },
  )
  // A node that has applied this generation has the previous state back.
  await run(tx, sql`update rollouts set released_as = ${generation} where id = ${id}`)
}

/** `isForced`: even if nodes have refused it; only the operator may do that. */
type Resume = { readonly reason: string; readonly isUrgent?: boolean; readonly isForced?: boolean }

export const resumeRollout = (db: DbPool, id: number, why: Resume): Promise<void> =>
  deciding(db, id, async (tx, rollout) => {
    await resume(tx, rollout, why)
    const after = { state: why.isUrgent ? 'releasing' : 'watching', reason: why.reason }
    await noteDecision(tx, rollout, why.isUrgent ? 'release' : 'resume', after)
  })

/**
 * Sends the halted changes to the first wave again and restarts the watch. Until that wave's bucket has them, further
 * changes of the account join, because the bucket does not hold their previous state.
 */
export async function resume(
  tx: Db,
  rollout: StoredRollout,
  { reason, isUrgent = false, isForced = false }: Resume,
): Promise<void> {
  refuseUndecidable(rollout)
  const { id, reached, keys } = rollout
  if (reached >= 0 && !isUrgent) throw new RolloutFault('the rollout is not halted')
  await run(
    tx,
    sql`
      update rollouts set is_urgent = ${isUrgent}, is_forced = ${isForced}, reason = ${reason}, state = 'watching',
        reached = greatest(reached, 0) where id = ${id}`,
  )
  if (reached >= 0) return
  const generation = await send(tx, rollout, keys, { from: 0, to: 0 })
  await run(
    tx,
    sql`
      update rollouts set open_until = greatest(open_until, ${generation}), moved_at = now(), applied_at = null,
        evidence = null
      where id = ${id}`,
  )
}

export const noteApplied = (db: Db, { id, open_until }: StoredRollout): Promise<void> =>
  run(db, sql`update rollouts set applied_at = now() where id = ${id} and open_until = ${open_until}`)

/** Retention of rollouts that have reached all waves. */
export const endedDays = 90

export const deleteEndedBefore = (db: Db, moment: number): Promise<number> =>
  deleteInBatches(db, sql`rollouts`, sql`ended_at < ${rfc3339(moment)}`)
