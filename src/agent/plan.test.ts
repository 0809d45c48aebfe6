import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { EdgeRecord, RecordKey } from '../distribution/records.ts'
import { newId } from '../kernel/ids.ts'
import type { Position } from './disk/record_log.ts'
import type { Entry } from './haproxy/maps/entries.ts'
import type { Released } from './intake/intake.ts'
import { deletionsBy, heldBack, livingIn, newest, plan, positionAfter, valueFor } from './plan.ts'

const value = { host: 'a.example', port: 1, tls: false }
const key = (name: string): RecordKey => `backend.bkdst_${name}`
const live = (name: string, generation: number): EdgeRecord => ({ key: key(name), generation, value })
const gone = (name: string, generation: number): EdgeRecord => ({ key: key(name), generation, value: null })
const byKey = (...records: EdgeRecord[]) => new Map(records.map((record) => [record.key, record]))
const whole = (...records: EdgeRecord[]): Released[] => [{ records, applied: 50, isWhole: true }]

test('what is not in a state that was read whole is deleted, with the generation of that state', () => {
  const known = byKey(live('kept', 5), live('lost', 6), gone('deleted', 7), live('newer', 51))
  assert.deepEqual(deletionsBy(whole(live('kept', 5)), known, new Map()), [gone('lost', 50)])
  assert.deepEqual(deletionsBy([{ records: [], applied: 50 }], known, new Map()), [])
})

test('an old deletion that was put back over a newer one does not keep what was made in between', () => {
  const known = byKey(live('replaced', 13), live('same', 14), live('deleted', 15))
  const state = whole(gone('replaced', 4), gone('same', 14), gone('deleted', 28))
  assert.deepEqual(deletionsBy(state, known, new Map()), [gone('replaced', 50), gone('same', 50)])
})

test('what waits for its file is deleted too, so that the node does not wait forever', () => {
  const known = byKey(live('kept', 5), gone('waiting', 6))
  const unfinished = byKey(live('waiting', 7))
  assert.deepEqual(deletionsBy(whole(live('kept', 5)), known, unfinished), [gone('waiting', 50)])
})

test('a deletion counts up to the state that was read whole, and not for what came after it', () => {
  assert.deepEqual(deletionsBy(whole(), byKey(live('before', 49), live('itself', 50)), new Map()), [gone('before', 50)])
  const [older] = whole(live('kept', 5))
  assert.ok(older)
  const known = byKey(live('kept', 5), live('lost', 6))
  assert.deepEqual(deletionsBy([older, { records: [], applied: 60, isWhole: true }], known, new Map()), [
    gone('kept', 60),
    gone('lost', 60),
  ])
  const unusable = [{ key: key('lost'), generation: 6, isLive: true }]
  assert.deepEqual(deletionsBy([{ ...older, unusable }], known, new Map()), [], 'it is there, and cannot be used here')
})

test('the newest of several versions of a record counts, and one that is not newer changes nothing', () => {
  const batches = (...records: EdgeRecord[]): Released[] => records.map((record) => ({ records: [record], applied: 9 }))
  const found = (unfinished: EdgeRecord[], known: EdgeRecord[], ...arrived: EdgeRecord[]) => [
    ...newest(batches(...arrived), byKey(...unfinished), byKey(...known)).values(),
  ]
  assert.deepEqual(found([], [], live('a', 1), live('b', 2)), [live('a', 1), live('b', 2)])
  assert.deepEqual(found([], [], live('a', 3), gone('a', 2)), [live('a', 3)])
  assert.deepEqual(found([], [], live('a', 2), gone('a', 3)), [gone('a', 3)])
  assert.deepEqual(found([], [live('a', 4)], gone('a', 3), gone('a', 4)), [])
  assert.deepEqual(found([], [live('a', 4)], gone('a', 5)), [gone('a', 5)])
  assert.deepEqual(found([live('a', 6)], [live('a', 4)], gone('a', 5)), [live('a', 6)])
  assert.deepEqual(found([live('a', 6)], [live('a', 4)], gone('a', 7)), [gone('a', 7)])
})

test('what is live in a state that was read whole counts, even if a later version or a deletion of it is known', () => {
  const arriving = (known: EdgeRecord[], ...records: EdgeRecord[]) => [
    ...newest(whole(...records), new Map(), byKey(...known)).values(),
  ]
  assert.deepEqual(arriving([gone('a', 5)], live('a', 3)), [live('a', 3)], 'deleted and made again, by an old version')
  assert.deepEqual(arriving([live('a', 50)], live('a', 3)), [live('a', 3)], 'changed and changed back')
  assert.deepEqual(arriving([live('a', 51)], live('a', 3)), [], 'changed since')
  assert.deepEqual(arriving([live('a', 3)], live('a', 3)), [], 'known')
  assert.deepEqual(arriving([live('a', 5)], gone('a', 3)), [], 'an old deletion')
  const part: Released[] = [{ records: [live('a', 3)], applied: 50 }]
  assert.deepEqual([...newest(part, new Map(), byKey(gone('a', 5)))], [], 'only a part was read')
})

test('what is unfinished stands for what is known of the same record', () => {
  const living = livingIn(byKey(live('a', 1), live('b', 2), gone('c', 3)), byKey(live('b', 4), gone('d', 5)))
  assert.deepEqual([...living], [live('a', 1), live('b', 4)])
  assert.deepEqual([...livingIn(byKey(live('b', 2)), byKey(gone('b', 4)))], [])
})

const position: Position = { applied: 10, revision: 100, bucket: 'one', complete: false }

test('a node moves on in the bucket that it reads, never back, and begins another at its own revision', () => {
  assert.deepEqual(positionAfter(position, []), position)
  const after = (...released: Omit<Released, 'records'>[]) =>
    positionAfter(
      position,
      released.map((each) => ({ records: [], ...each })),
    )
  assert.deepEqual(after({ applied: 12 }), { ...position, applied: 12, complete: true })
  assert.deepEqual(after({ applied: 9, read: { bucket: 'one', revision: 90 } }), { ...position, complete: true })
  assert.deepEqual(after({ applied: 12, read: { bucket: 'one', revision: 110 } }), {
    ...position,
    ...{ applied: 12, revision: 110, complete: true },
  })
  assert.deepEqual(after({ applied: 12, read: { bucket: 'two', revision: 5 } }, { applied: 11 }), {
    ...{ applied: 12, revision: 5, bucket: 'two', complete: true },
  })
})

test('while a record is unfinished the position stays before it, so that it is read again after a restart', () => {
  const arrivedAt: Position = { applied: 20, revision: 200, bucket: 'two', complete: true }
  assert.deepEqual(heldBack(position, arrivedAt, Number.POSITIVE_INFINITY), arrivedAt)
  assert.deepEqual(heldBack(position, arrivedAt, 15), { ...position, applied: 15, complete: true })
  assert.deepEqual(heldBack(position, arrivedAt, 25), { ...position, applied: 20, complete: true })
  assert.deepEqual(heldBack(position, arrivedAt, 5), { ...position, complete: true })
})

test('a change is planned from what is in force, and a record that cannot be applied leaves that as it is', () => {
  const [same, moved, fresh, deleted, wrong] = Array.from({ length: 5 }, (): EdgeRecord => {
    return { key: `backend.${newId('bkdst')}`, generation: 5, value }
  }) as [EdgeRecord, EdgeRecord, EdgeRecord, EdgeRecord, EdgeRecord]
  const entryOf = ({ key }: EdgeRecord, address: string): Entry => {
    return { map: 'backend', key: key.slice('backend.'.length), value: `plain|${address}|1|-` }
  }
  const at = (record: EdgeRecord, address: string) => ({ record, value: { ...value, address } })
  const known = byKey(same, moved, deleted, wrong)
  const inForce = new Map([same, moved, deleted, wrong].map((record) => [record.key, [entryOf(record, '192.0.2.1')]]))
  const prepared = [
    at(same, '192.0.2.1'),
    at(moved, '192.0.2.2'),
    at(fresh, '192.0.2.3'),
    { record: deleted, value: null },
    at(wrong, 'not an address'),
  ]
  const { changes, del, touched, refused } = plan(prepared, known, (each) => inForce.get(each) ?? [])
  assert.deepEqual(changes, [
    { record: same, before: same, after: [entryOf(same, '192.0.2.1')] },
    { record: moved, before: moved, after: [entryOf(moved, '192.0.2.2')] },
    { record: fresh, before: undefined, after: [entryOf(fresh, '192.0.2.3')] },
    { record: deleted, before: deleted, after: [] },
  ])
  assert.deepEqual(del, [entryOf(moved, '192.0.2.1'), entryOf(deleted, '192.0.2.1')])
  assert.deepEqual(touched, [moved, fresh, deleted])
  assert.deepEqual(
    refused.map(({ key, generation }) => [key, generation]),
    [[wrong.key, 5]],
  )
})

test('the proxy gets the names of the files of a policy, and any other record as it is', () => {
  const [ranges, rules] = [
    { hash: 'a', bytes: 1, chunks: [] },
    { hash: 'b', bytes: 1, chunks: [] },
  ]
  assert.equal(valueFor('policy.ipp_1', ranges), 'a')
  assert.equal(valueFor('policy.ipp_1', ranges, rules), 'a.b')
  const restrictions = { sets: [] }
  assert.equal(valueFor('restrictions.ac_1', restrictions, rules), restrictions)
})
