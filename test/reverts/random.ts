// Several people change things and undo changes at the same time, while a process is killed now and then. When it is quiet,
// what undoing something does is compared with what it has to do.
import assert from 'node:assert/strict'
import { type Client, createClient } from '../harness/client.ts'
import type { Account, ControlPlane } from '../harness/control_plane.ts'
import { pause } from '../harness/poll.ts'
import { randomBelow } from '../harness/random.ts'
import { type Configuration, comparable } from './configuration.ts'
import { type Event, isInTheWay, withoutEvent } from './expected.ts'
import { act, applySet, draftRevert, pairPrefix, seenBy, targetOf } from './people.ts'

export type Counts = { undone: number; conflicts: number; irreversible: number; killed: number; changes: number }
type World = { plane: ControlPlane; admin: Account; counts: Counts }

export async function revertAtRandom(plane: ControlPlane, rounds: number): Promise<Counts> {
  const admin = await plane.newAccount()
  const counts: Counts = { undone: 0, conflicts: 0, irreversible: 0, killed: 0, changes: 0 }
  const world = { plane, admin, counts }
  for (let round = 0; round < rounds; round++) {
    await busyTime(world, randomBelow(3) === 0)
    assertPairs(await seenBy(admin))
    for (let count = 0; count < 4; count++) await undoOne(world)
  }
  return counts
}

/** One of the people calls a process that may be killed meanwhile. */
async function busyTime({ plane, admin, counts }: World, isKilled: boolean): Promise<void> {
  const doomed = isKilled ? await plane.startProcess() : undefined
  const people: Client[] = [admin, admin, doomed ? createClient([doomed.origin], admin.token) : admin]
  let isGone = false
  const busy = people.map(async (person, index) => {
    for (let count = 0; count < 8; count++)
      try {
        const answer = await act(person, admin)
        if (!answer) continue
        counts.changes++
        assert.ok(answer.status < 500, answer.text)
      } catch (error) {
        if (index < 2 || !isGone) throw error
      }
  })
  if (doomed) {
    const acting = Promise.all(busy)
    await Promise.race([acting, pause(randomBelow(700))])
    isGone = true
    doomed.child.kill('SIGKILL')
    counts.killed++
  }
  await Promise.all(busy)
}

/** Change sets create and delete both or neither. */
function assertPairs(configuration: Configuration): void {
  const [policies, backends] = ['ip_policies.list', 'static_backends.list'].map((list) =>
    (configuration[list] ?? [])
      .map(({ description }) => String(description))
      .filter((text) => text.startsWith(pairPrefix))
      .sort(),
  )
  assert.deepEqual(policies, backends, 'a change set was made or undone by half')
}

async function undoOne({ admin, counts }: World): Promise<void> {
  const target = await targetOf(admin)
  if (!target) return
  const before = await seenBy(admin)
  const draft = await draftRevert(admin, target)
  assert.deepEqual(comparable(await seenBy(admin)), comparable(before), 'a draft changed something')
  const event = target.kind === 'audit_events' ? await eventOf(admin, target.id) : undefined
  if (draft.status !== 201) {
    assert.match(draft.body.error_code, /^ERR_(NOT_REVERSIBLE|REVERT_CONFLICT)$/, draft.text)
    if (draft.body.error_code === 'ERR_NOT_REVERSIBLE') counts.irreversible++
    else counts.conflicts++
    if (draft.body.error_code === 'ERR_NOT_REVERSIBLE')
      assert.match(draft.body.msg, /has undone it|been undone|Rules were deleted/)
    else if (event) assert.ok(isInTheWay(before, event), `${JSON.stringify(event)}\n${draft.text}`)
    return
  }
  const applied = await applySet(admin, draft.body.id)
  assert.equal(applied.status, 200, applied.text)
  const undone = await seenBy(admin)
  if (event) assert.deepEqual(comparable(undone), comparable(withoutEvent(before, event)), JSON.stringify(event))
  assertPairs(undone)
  counts.undone++
  // Undone as well, so that all is as it was.
  const back = await draftRevert(admin, { kind: 'change_sets', id: draft.body.id })
  if (back.body.error_code === 'ERR_NOT_REVERSIBLE') return assert.match(back.body.msg, /Rules were deleted/)
  assert.equal(back.status, 201, back.text)
  assert.equal((await applySet(admin, back.body.id)).status, 200)
  assert.deepEqual(comparable(await seenBy(admin)), comparable(before), `back after ${draft.body.id}`)
}

async function eventOf(admin: Client, id: string): Promise<Event> {
  const { audit_events } = (await admin('GET', '/audit_events?limit=100')).body
  return audit_events.find((event: Event) => event.id === id) ?? assert.fail(`${id} is not among the newest`)
}
