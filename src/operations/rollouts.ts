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

/** What nodes that have a rollout say of it that nodes did not say before. Kept with the rollout and shown to people. */
export type Evidence = {
  readonly signal: RolloutSignal
  /** Several are separated by commas. */
  readonly node: string
  readonly reason: string
  /** The record that it refused. */
  readonly key?: string
  /** The edge or route. */
  readonly target?: string
  /** Some of those that it refuses now, of those it had let in lately. */
  readonly addresses?: readonly string[]
  readonly refused?: number
  readonly let_in?: number
  /** On these nodes before and since they have the changes, and since then on nodes that do not have them. */
  readonly before?: Answers
  readonly since?: Answers
  readonly elsewhere?: Answers
}
export type Answers = {
  readonly requests: number
  readonly failed: number
  /** Refused by the application, or of an edge that has no route for them. Missing from what was kept before there was this. */
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
  /** Up to where the bucket of the first wave has everything. */
  sent_up_to: number
  /** No other rollout of the account is before it. */
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

/** Why a decision is not possible, for the operator. */
export class RolloutFault extends Error {
  override readonly name = 'RolloutFault'
}

/**
 * The rollout, for one decision about it. The lock is that of the statement with which a publisher assigns changes to
 * rollouts: what it had read before does not hold any more.
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

/** What the service or the operator decided, for the account: its audit, and through it its webhooks. */
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

/** Lets the publisher send each record as these waves are to have it now. Resolves to the generation. */
const send = (
  tx: Db,
  { account_id, cell_id }: StoredRollout,
  keys: readonly RecordKey[],
  waves: Waves,
): Promise<number> => writeOutbox(tx, account_id, keys, { id: cell_id }, waves)

/** A judgment holds for what was judged: meanwhile a person may have released, halted or resumed it. */
function refuseOther(now: StoredRollout, judged: StoredRollout): void {
  const fields = ['reached', 'moved_at', 'open_until', 'is_urgent', 'is_forced'] as const
  if (fields.some((field) => now[field] !== judged[field])) throw new RolloutFault('the rollout is another one now')
}

/** To the next wave, or to all others. Not before the bucket of the first has it: see joinRollouts. */
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

/** `judged`: what speaks against it was found by the judge, and not by a person. */
export const haltRollout = (db: DbPool, id: number, why: Halt, judged?: StoredRollout): Promise<void> =>
  deciding(db, id, async (tx, rollout) => {
    if (judged) refuseOther(rollout, judged)
    await halt(tx, rollout, why)
    const evidence = why.evidence?.slice(0, 10) ?? []
    await noteDecision(tx, rollout, 'halt', { state: 'halted', reason: why.reason, evidence })
  })

/** What the account changed since belongs to it from now on, so that its waves have one state and not a mixture. */
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
  // A node that has applied it has what was there before.
  await run(tx, sql`update rollouts set released_as = ${generation} where id = ${id}`)
}

/** `isForced`: even if nodes have refused it, which is for the operator alone. */
type Resume = { readonly reason: string; readonly isUrgent?: boolean; readonly isForced?: boolean }

export const resumeRollout = (db: DbPool, id: number, why: Resume): Promise<void> =>
  deciding(db, id, async (tx, rollout) => {
    await resume(tx, rollout, why)
    const after = { state: why.isUrgent ? 'releasing' : 'watching', reason: why.reason }
    await noteDecision(tx, rollout, why.isUrgent ? 'release' : 'resume', after)
  })

/**
 * The first wave gets what was halted again, and it is watched. Until its bucket has it, further changes of the account
 * join it: the bucket does not say what was before them.
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

/** How long rollouts are kept after they reached all waves. */
export const endedDays = 90

export const deleteEndedBefore = (db: Db, moment: number): Promise<number> =>
  deleteInBatches(db, sql`rollouts`, sql`ended_at < ${rfc3339(moment)}`)
