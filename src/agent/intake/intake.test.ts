import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createLiveSet } from '../../distribution/live_set.ts'
import type { EdgeRecord } from '../../distribution/records.ts'
import { newId } from '../../kernel/ids.ts'
import { type BucketEntry, createIntake, maxWaitingMessages, type Released } from './intake.ts'

const bucket = 'made on Sunday'
const record = (generation: number, key: EdgeRecord['key'] = `backend.${newId('bkdst')}`): EdgeRecord => ({
  key,
  generation,
  value: null,
})
let revision = 0
const entry = (fields: Partial<BucketEntry>): BucketEntry => ({
  read: { bucket, revision: ++revision },
  pending: 0,
  ...fields,
})
const progress = (settled: number, complete?: string, after = 0) => ({ after, settled, ...(complete && { complete }) })
const generations = (released: Released[]) => released.map(({ records }) => records.map(({ generation }) => generation))
const newNode = () => {
  const intake = createIntake({ applied: 0, complete: false })
  intake.opened(bucket, false)
  return intake
}
/** Reads on in a bucket that was compared since. */
const nodeAt = (applied: number) => {
  const intake = createIntake({ applied, complete: true })
  intake.opened(bucket, true)
  intake.entry(entry({ progress: progress(applied, bucket) }))
  return intake
}

test('row 3: a new node serves nothing until the bucket is read to its end and marked complete', () => {
  const intake = newNode()
  assert.deepEqual(intake.entry(entry({ record: record(1), pending: 2 })), [])
  assert.deepEqual(intake.entry(entry({ progress: progress(3, bucket), pending: 1 })), [], 'more is pending')
  assert.equal(intake.state().complete, false)
  const [released, ...more] = intake.entry(entry({ record: record(2) }))
  assert.deepEqual([generations([released as Released]), more], [[[1, 2]], []])
  assert.deepEqual([released?.applied, released?.read?.revision, intake.state().complete], [3, revision, true])
})

test('row 3: a bucket that is being refilled is not complete, even if its progress says so', () => {
  const intake = newNode()
  assert.deepEqual(intake.entry(entry({ record: record(1) })), [])
  assert.deepEqual(intake.entry(entry({ progress: progress(1) })), [], 'not called complete')
  assert.deepEqual(intake.entry(entry({ progress: progress(1, 'made on Monday') })), [], 'another bucket was')
  intake.entry(entry({ record: record(2) }))
  assert.deepEqual(generations(intake.entry(entry({ progress: progress(2, bucket) }))), [[1, 2]])
})

test('row 3: a partly written batch in the bucket waits for its progress', () => {
  const intake = nodeAt(4)
  assert.deepEqual(intake.entry(entry({ progress: progress(4, bucket) }))[0]?.records, [])
  assert.deepEqual(intake.entry(entry({ record: record(5) })), [])
  assert.deepEqual(intake.entry(entry({ record: record(6) })), [])
  assert.deepEqual(generations(intake.entry(entry({ progress: progress(6, bucket) }))), [[5, 6]])
})

test('a replayed record behind the progress does not hold up a new node', () => {
  const intake = newNode()
  intake.entry(entry({ record: record(7), pending: 2 }))
  intake.entry(entry({ progress: progress(7, bucket), pending: 1 }))
  assert.deepEqual(generations(intake.entry(entry({ record: record(3) }))), [[7, 3]])
})

test('row 3: messages apply in order; a missing one holds up later ones until the bucket has it', () => {
  const intake = nodeAt(4)
  assert.deepEqual(generations(intake.announced({ records: [record(5)], progress: progress(5, undefined, 4) })), [[5]])
  assert.deepEqual(intake.announced({ records: [record(8)], progress: progress(8, undefined, 7) }), [])
  assert.deepEqual(intake.announced({ records: [record(7)], progress: progress(7, undefined, 6) }), [])
  assert.deepEqual(generations(intake.announced({ records: [record(6)], progress: progress(6, undefined, 5) })), [
    [6],
    [7],
    [8],
  ])
  intake.announced({ records: [record(10)], progress: progress(10, undefined, 9) })
  intake.entry(entry({ record: record(9) }))
  const released = intake.entry(entry({ progress: progress(9, bucket) }))
  assert.deepEqual([generations(released), released.at(-1)?.applied], [[[9], [10]], 10])
})

test('row 3: a message alone never makes a new node complete, not even the first', () => {
  const intake = newNode()
  assert.deepEqual(intake.announced({ records: [record(1)], progress: progress(1) }), [])
  assert.equal(intake.state().complete, false)
  const released = intake.entry(entry({ progress: progress(0, bucket) }))
  assert.deepEqual([generations(released), released.at(-1)?.applied], [[[], [1]], 1])
})

test('a node that reads a new bucket keeps applying messages, and switches when the bucket is complete', () => {
  const intake = createIntake({ applied: 4, complete: true })
  intake.opened(bucket, false)
  assert.deepEqual(intake.entry(entry({ record: record(5) })), [])
  assert.deepEqual(intake.entry(entry({ progress: progress(5) })), [])
  assert.deepEqual(generations(intake.announced({ records: [record(5)], progress: progress(5, undefined, 4) })), [[5]])
  assert.deepEqual(generations(intake.entry(entry({ progress: progress(6, bucket) }))), [[5]])
})

test('reopening a bucket starts reading it from the beginning', () => {
  const intake = newNode()
  intake.entry(entry({ record: record(1) }))
  intake.opened(bucket, false)
  assert.deepEqual(intake.state(), {
    complete: false,
    staged: 0,
    pending: undefined,
    isReadingAll: true,
    differs: false,
  })
  assert.deepEqual(generations(intake.entry(entry({ progress: progress(1, bucket) }))), [[]])
})

test('waiting messages are bounded, because the bucket has the dropped ones', () => {
  const intake = nodeAt(1)
  const many = Array.from({ length: 30_000 }, (_, index) => record(10 + index))
  intake.announced({ records: many, progress: progress(9, undefined, 8) })
  intake.announced({ records: many, progress: progress(10, undefined, 9) })
  const released = intake.announced({ records: [], progress: progress(8, undefined, 1) })
  assert.deepEqual([released.length, released.at(-1)?.applied], [2, 9])
})

test('the floor counts once the bucket that it was said of is read to its end, and never in a message', () => {
  const intake = nodeAt(4)
  const said = (settled: number, complete?: string) => ({ ...progress(settled, complete), floor: 3 })
  const floors = (released: Released[]) => released.map(({ floor }) => floor)
  assert.deepEqual(floors(intake.announced({ records: [], progress: { ...said(5, bucket), after: 4 } })), [undefined])
  assert.deepEqual(intake.entry(entry({ progress: said(5, 'made on Monday') })), [], 'of another bucket')
  assert.deepEqual(intake.entry(entry({ progress: said(6, bucket), pending: 1 })), [], 'more is pending')
  assert.deepEqual(floors(intake.entry(entry({ record: record(6) }))), [3])
})

/** A bucket with these records of the control plane, and the progress that says so. */
const live = (generation: number, key?: EdgeRecord['key']): EdgeRecord => ({
  ...record(generation, key),
  value: { host: 'a.example', port: 1, tls: false },
})
const signedFor = (settled: number, records: readonly EdgeRecord[]) => {
  const set = createLiveSet()
  for (const { key, generation } of records) set.add(key, generation)
  return { ...progress(settled, bucket), live: set.digest() }
}
const [wide, narrow] = [live(1), live(3)]
const complete = signedFor(3, [wide, narrow])

for (const [damage, narrowEntry] of Object.entries({
  'is missing': undefined,
  'was replaced by garbage': { unverified: narrow.key },
  'was replaced by an older version': { record: live(2, narrow.key) },
  'was replaced by a deletion from before it was created': { record: record(2, narrow.key) },
} satisfies Record<string, Partial<BucketEntry> | undefined>))
  test(`a new node stays shut while a record ${damage} in the bucket, and serves once it is back`, () => {
    const intake = newNode()
    intake.entry(entry({ record: wide, pending: 2 }))
    if (narrowEntry) intake.entry(entry({ ...narrowEntry, pending: 1 }))
    assert.deepEqual(intake.entry(entry({ progress: complete })), [])
    assert.deepEqual([intake.state().complete, intake.state().differs], [false, true])
    const [released] = intake.entry(entry({ record: narrow }))
    assert.deepEqual([generations([released as Released]), released?.isWhole], [[[1, 3]], true])
    assert.equal(intake.state().differs, false)
  })

test('a deleted record that came back in the bucket keeps a new node shut', () => {
  const intake = newNode()
  intake.entry(entry({ record: wide, pending: 2 }))
  intake.entry(entry({ record: narrow, pending: 1 }))
  assert.deepEqual(intake.entry(entry({ progress: signedFor(4, [wide]) })), [])
  assert.equal(intake.entry(entry({ record: record(4, narrow.key) })).length, 1)
})

test('garbage under a key that no record has does not keep a new node shut', () => {
  const intake = newNode()
  for (const each of [wide, narrow]) intake.entry(entry({ record: each, pending: 2 }))
  intake.entry(entry({ unverified: record(1).key, pending: 1 }))
  assert.equal(intake.entry(entry({ progress: complete })).length, 1)
})

test('a record that this version cannot use does not keep a new node shut, because the control plane has signed it', () => {
  const intake = newNode()
  const unusable = { key: narrow.key, generation: narrow.generation, isLive: true }
  intake.entry(entry({ record: wide, pending: 2 }))
  intake.entry(entry({ unusable, pending: 1 }))
  const [released] = intake.entry(entry({ progress: complete }))
  assert.deepEqual(released?.unusable, [unusable])
})

test('without a digest, as from a publisher before 0.3, a new node stays shut while garbage is in the place of a record', () => {
  const intake = newNode()
  intake.entry(entry({ record: wide, pending: 2 }))
  intake.entry(entry({ unverified: narrow.key, pending: 1 }))
  assert.deepEqual(intake.entry(entry({ progress: progress(3, bucket) })), [])
  assert.equal(intake.entry(entry({ record: narrow })).length, 1)
})

test('messages without records do not pile up without limit while one before them is missing', () => {
  const intake = nodeAt(1)
  const beyond = 50
  for (let after = 2; after < 2 + maxWaitingMessages + beyond; after++)
    assert.deepEqual(intake.announced({ records: [], progress: progress(after + 1, undefined, after) }), [])
  const released = intake.announced({ records: [record(2)], progress: progress(2, undefined, 1) })
  assert.equal(released.length, 1 + maxWaitingMessages)
  assert.equal(released.at(-1)?.applied, 2 + maxWaitingMessages, 'the bucket brings the rest')
  // There is room again.
  const [next] = intake.announced({ records: [], progress: progress(9e5, undefined, 2 + maxWaitingMessages) })
  assert.equal(next?.applied, 9e5)
})

test('a node that reads on in a bucket that has replaced its own takes nothing from there until it reads it from its beginning', () => {
  const intake = nodeAt(4)
  intake.entry(entry({ record: record(6) }))
  const elsewhere = { ...progress(6, 'made on Monday', 4), bucket: 'made on Monday' }
  assert.deepEqual(intake.entry(entry({ progress: elsewhere })), [], 'what stands before it there was never read')
  intake.opened('made on Monday', false)
  intake.entry(entry({ record: record(5), pending: 2 }))
  intake.entry(entry({ record: record(6), pending: 1 }))
  assert.deepEqual(generations(intake.entry(entry({ progress: elsewhere }))), [[5, 6]])
})

test('a bucket of the past deletes nothing, however complete it was', () => {
  const intake = nodeAt(9)
  intake.opened('made on Monday', false)
  intake.entry(entry({ record: record(3), pending: 1 }))
  assert.deepEqual(intake.entry(entry({ progress: progress(4, 'made on Monday') })), [], 'the node has come further')
  intake.entry(entry({ record: record(10) }))
  assert.deepEqual(generations(intake.entry(entry({ progress: progress(10, 'made on Monday', 9) }))), [[3, 10]])
})

test('a publisher that has not compared the bucket vouches for nothing in it, not even for its own batch', () => {
  const intake = nodeAt(4)
  intake.entry(entry({ record: record(8) }))
  assert.deepEqual(intake.entry(entry({ progress: progress(8, undefined, 6) })), [], '5 and 6 may be missing there')
  assert.deepEqual(intake.entry(entry({ progress: progress(8, undefined, 4) })), [], 'a part may have been removed')
  assert.deepEqual(generations(intake.announced({ records: [record(8)], progress: progress(8, undefined, 4) })), [[8]])
  assert.deepEqual(generations(intake.entry(entry({ progress: progress(8, bucket, 6) }))), [[8]])
})

test('a node that reads on does not trust the place where it left the bucket until that was compared, as NATS may have gone back', () => {
  const intake = createIntake({ applied: 45, complete: true })
  intake.opened(bucket, true)
  intake.entry(entry({ record: record(48) }))
  assert.deepEqual(intake.entry(entry({ progress: progress(49, undefined, 41) })), [], '49 may stand before that place')
  intake.entry(entry({ record: record(49) }))
  assert.deepEqual(generations(intake.entry(entry({ progress: progress(50, bucket, 49) }))), [[48, 49]])
})

test('a message of the past brings nothing back', () => {
  const intake = nodeAt(9)
  assert.deepEqual(intake.announced({ records: [record(5)], progress: progress(5, bucket, 4) }), [])
  assert.deepEqual(intake.announced({ records: [record(9)], progress: progress(9, bucket, 8) }), [])
  assert.deepEqual(generations(intake.announced({ records: [record(10)], progress: progress(10, bucket, 9) })), [[10]])
})
