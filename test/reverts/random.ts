// Four people, two admins and two members, change things, apply change sets and undo changes at the same time. Now and then the
// process that some of them call is killed. While no one changes anything, undoing is compared with what it should do.
import assert from 'node:assert/strict'
import type { DbPool } from '../../src/db/pool.ts'
import { type Client, createClient } from '../harness/client.ts'
import type { ControlPlane } from '../harness/control_plane.ts'
import { pause, poll } from '../harness/poll.ts'
import { newUser } from '../harness/principals.ts'
import { randomBelow } from '../harness/random.ts'
import { type Configuration, comparable, type Shown } from './configuration.ts'
import { type Event, isInTheWay, withoutEvent } from './expected.ts'
import { act, applyNew, applySet, change, changesOfSet, draftRevert, pairPrefix, seenBy, targetOf } from './people.ts'
import { differencesOf, factsOf, isSameRecords, isShared, withoutFirst } from './records.ts'

export type Counts = Record<
  'sequences' | 'changes' | 'killed' | 'undone' | 'exact' | 'conflicts' | 'irreversible' | 'looks',
  number
>
type Plane = Pick<ControlPlane, 'db' | 'processes' | 'newAccount' | 'startProcess'>
type World = { plane: Plane; accountId: string; admin: Client; people: readonly Client[]; counts: Counts }
type Options = { sequences: number; kills: number; lanes?: number; until?: number }

/** What an account has makes each sequence slower. */
const sequencesPerAccount = 12

export const noCounts = (): Counts => ({
  ...{ sequences: 0, changes: 0, killed: 0, undone: 0, exact: 0, conflicts: 0, irreversible: 0, looks: 0 },
})

/** Accounts do not meet, so several can be busy at the same time. */
export async function revertAtRandom(
  plane: Plane,
  { sequences, kills, lanes = 1, until = Number.POSITIVE_INFINITY }: Options,
  counts = noCounts(),
): Promise<Counts> {
  let begun = 0
  const lane = async () => {
    while (begun < sequences && Date.now() < until) {
      const world = await newWorld(plane, counts)
      for (let count = 0; count < sequencesPerAccount && begun < sequences && Date.now() < until; count++) {
        begun++
        await sequence(world, kills > 0 && begun % Math.ceil(sequences / kills) === 0)
        counts.sequences++
      }
    }
  }
  const watch = watchForHalves(plane.db, counts)
  const work = Promise.all(Array.from({ length: lanes }, lane))
  work.catch(() => {})
  try {
    await Promise.race([work, watch.ended])
  } finally {
    begun = sequences
    watch.end()
    // Half of a change set is what went wrong first, even if something else was noticed before.
    await watch.ended
  }
  return counts
}

async function newWorld(plane: Plane, counts: Counts): Promise<World> {
  // Not those that are to be killed.
  const origins = plane.processes.filter(({ child }) => child.exitCode === null && child.signalCode === null)
  const clientFor = (token: string) =>
    createClient(
      origins.slice(0, 2).map(({ origin }) => origin),
      token,
    )
  const { token, accountId } = await plane.newAccount()
  const admin = clientFor(token)
  const people = [admin]
  for (const role of ['admin', 'member', 'member'] as const) people.push(await newUser({ clientFor }, admin, role))
  // An account without an edge has no record of its restrictions.
  await admin('POST', '/edges/https', { description: pairPrefix })
  return { plane, accountId, admin, people, counts }
}

async function sequence(world: World, isKilled: boolean): Promise<void> {
  await busyTime(world, isKilled)
  if (randomBelow(2)) await undoOne(world)
  else await undoFirstOfTwo(world)
}

/** Two of the people call a process that may be killed meanwhile. */
async function busyTime({ plane, admin, people, counts }: World, isKilled: boolean): Promise<void> {
  const doomed = isKilled ? await plane.startProcess() : undefined
  let isGone = false
  const known = await seenBy(admin)
  const busy = people.map(async (person, index) => {
    const isDoomed = doomed !== undefined && index % 2 === 1
    const as = isDoomed ? createClient([doomed.origin], person.token) : person
    for (let count = 0; count < 3; count++)
      try {
        const answer = await act(as, admin, known)
        if (!answer) continue
        counts.changes++
        assert.ok(answer.status < 500, answer.text)
      } catch (error) {
        if (!isDoomed || !isGone) throw error
      }
  })
  if (doomed) {
    const acting = Promise.all(busy)
    await Promise.race([acting, pause(randomBelow(400))])
    isGone = true
    doomed.child.kill('SIGKILL')
    counts.killed++
    await acting
    await endOfTransactions(plane.db)
  }
  await Promise.all(busy)
}

/** PostgreSQL may go on with what a killed process has sent. */
async function endOfTransactions(db: DbPool): Promise<void> {
  await pause(50)
  const { rows } = await db.query({ text: 'select clock_timestamp()::text as now' })
  const text = 'select from pg_stat_activity where datname = current_database() and xact_start < $1::timestamptz'
  await poll(
    () => db.query({ text, values: [rows[0]?.now] }),
    (found) => found.rows.length === 0,
  )
}

/**
 * Change sets create and delete a policy and a backend together, and publish them under one generation: looked at all the time, with one
 * statement for all accounts.
 */
function watchForHalves(db: DbPool, counts: Counts): { end: () => void; ended: Promise<void> } {
  let isOver = false
  const look = async () => {
    const { rows } = await db.query({
      text: `
        select coalesce(p.description, b.description) as half
        from (select * from ip_policies where starts_with(description, $1)) p
          full join (select * from backends where starts_with(description, $1)) b
            on b.account_id = p.account_id and b.description = p.description
        where p.id is null or b.id is null limit 1`,
      values: [`${pairPrefix} `],
    })
    assert.deepEqual(rows, [], 'a change set was made or undone by half')
    counts.looks++
  }
  const ended = (async () => {
    while (!isOver) {
      await look()
      await pause(20)
    }
    await look()
  })()
  // Reported at the end.
  ended.catch(() => {})
  return {
    end() {
      isOver = true
    },
    ended,
  }
}

/** What is created again is the newest in its list: a route, too. */
const inAnyOrder = (configuration: Configuration): unknown =>
  comparable({
    ...configuration,
    'https_edges.list': (configuration['https_edges.list'] ?? []).map((edge) => ({
      ...edge,
      routes: (edge.routes as Shown[]).toSorted((one, other) => (String(one.match) < String(other.match) ? -1 : 1)),
    })),
  })

/** Something that was done some time ago, or not so long ago. */
async function undoOne({ plane, accountId, admin, counts }: World): Promise<void> {
  const target = await targetOf(admin)
  if (!target) return
  const before = await seenBy(admin)
  const records = await factsOf(plane, accountId)
  const draft = await draftRevert(admin, target)
  const event = target.kind === 'audit_events' ? await eventOf(admin, target.id) : undefined
  if (draft.status !== 201) {
    noteRefusal(counts, draft.body, draft.text)
    if (draft.body.error_code === 'ERR_REVERT_CONFLICT' && event)
      assert.ok(isInTheWay(before, event), `${JSON.stringify(event)}\n${draft.text}`)
    assert.deepEqual(await factsOf(plane, accountId), records, 'what was refused changed something')
    return
  }
  assert.deepEqual(inAnyOrder(await seenBy(admin)), inAnyOrder(before), 'a draft changed something')
  const applied = await applySet(admin, draft.body.id)
  assert.equal(applied.status, 200, applied.text)
  if (event) {
    const undone = await seenBy(admin)
    assert.deepEqual(inAnyOrder(undone), inAnyOrder(withoutEvent(before, event)), JSON.stringify(event))
  }
  counts.undone++
  // Undone as well, so that all is as it was.
  const back = await draftRevert(admin, { kind: 'change_sets', id: draft.body.id })
  if (back.body.error_code === 'ERR_NOT_REVERSIBLE') return assert.match(back.body.msg, /Rules were deleted/)
  assert.equal(back.status, 201, back.text)
  assert.equal((await applySet(admin, back.body.id)).status, 200)
  assert.deepEqual(inAnyOrder(await seenBy(admin)), inAnyOrder(before), `back after ${draft.body.id}`)
  await assertRecords({ plane, accountId }, records, `back after ${draft.body.id}`)
}

/** Undoes the first of two changes. The records must be as they were before it, but for what the second one changed. */
async function undoFirstOfTwo({ plane, accountId, admin, people, counts }: World): Promise<void> {
  const known = await seenBy(admin)
  const before = await factsOf(plane, accountId)
  const person = people[randomBelow(people.length)] ?? admin
  const isSet = randomBelow(3) === 0
  const made = await (isSet ? applyNew(person, changesOfSet(known)) : change(person, known))
  if (made.status >= 300) return
  const after = await factsOf(plane, accountId)
  const second = await change(admin, await seenBy(admin))
  const now = await factsOf(plane, accountId)
  const target = isSet ? ({ kind: 'change_sets', id: made.body.id } as const) : await targetBy(admin, made)
  if (!target) return
  const draft = await draftRevert(admin, target)
  assert.deepEqual(await factsOf(plane, accountId), now, 'a draft changed something')
  if (draft.status !== 201) {
    noteRefusal(counts, draft.body, draft.text)
    if (draft.body.error_code === 'ERR_REVERT_CONFLICT')
      assert.ok(second.status < 300, `nothing was in the way: ${draft.text}`)
    return
  }
  const applied = await applySet(admin, draft.body.id)
  assert.equal(applied.status, 200, applied.text)
  counts.undone++
  if (isShared(before, after, now)) return
  await assertRecords({ plane, accountId }, withoutFirst(before, after, now), `undone: ${JSON.stringify(target)}`)
  counts.exact++
}

async function assertRecords(
  { plane, accountId }: Pick<World, 'plane' | 'accountId'>,
  wanted: ReadonlyMap<string, string>,
  when: string,
): Promise<void> {
  const found = await factsOf(plane, accountId)
  assert.ok(isSameRecords(found, wanted), `${when}\n${differencesOf(wanted, found)}`)
}

function noteRefusal(counts: Counts, body: { error_code: string; msg: string }, text: string): void {
  assert.match(body.error_code, /^ERR_(NOT_REVERSIBLE|REVERT_CONFLICT)$/, text)
  if (body.error_code === 'ERR_REVERT_CONFLICT') {
    assert.match(body.msg, /^Nothing was changed, because of later changes: \w+_\w{26} /)
    counts.conflicts++
    return
  }
  counts.irreversible++
  assert.match(body.msg, /has undone it|been undone|Rules were deleted|changed nothing/)
}

const eventsOf = async (admin: Client): Promise<(Event & { operation_id: string })[]> =>
  (await admin('GET', '/audit_events?limit=100')).body.audit_events

const eventOf = async (admin: Client, id: string): Promise<Event> =>
  (await eventsOf(admin)).find((event) => event.id === id) ?? assert.fail(`${id} is not among the newest`)

/** Undefined for a change that changed nothing. */
async function targetBy(admin: Client, { headers }: { headers: Pick<Headers, 'get'> }) {
  const event = (await eventsOf(admin)).find(({ operation_id }) => operation_id === headers.get('operation-id'))
  return event && { kind: 'audit_events' as const, id: event.id }
}

/**
 * As a build that makes half of a change set: for the control, because what cannot fail shows nothing. It is lost with the commit, so that no
 * answer says anything of it.
 */
export const withoutSecondHalf = (db: DbPool) =>
  broken(
    db,
    'lose_backend',
    `after insert on backends deferrable initially deferred for each row when (starts_with(new.description, '${pairPrefix} '))`,
    'delete from backends where account_id = new.account_id and id = new.id',
    'constraint trigger',
  )

/** As a build that undoes more than its part. */
export const undoingOthers = (db: DbPool) =>
  broken(
    db,
    'undo_others',
    "after update on change_sets for each row when (old.state = 'draft' and new.state = 'applied' and new.reverts_id is not null)",
    `update backends set address = 'other.internal:1' where account_id = new.account_id and kind = 'static';
     update edges set websocket = not websocket where account_id = new.account_id and kind = 'route'`,
  )

async function broken(db: DbPool, name: string, when: string, does: string, kind = 'trigger'): Promise<void> {
  await db.query({
    text: `create function public.${name}() returns trigger language plpgsql security definer as $$
      begin ${does}; return null; end $$`,
  })
  await db.query({ text: `create ${kind} ${name} ${when} execute function public.${name}()` })
}
