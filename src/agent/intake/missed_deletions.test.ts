import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { EdgeRecord, RecordKey } from '../../distribution/records.ts'
import type { Log } from '../../kernel/log.ts'
import { livingIn } from '../plan.ts'
import type { Released } from './intake.ts'
import { createMissedDeletions, type HasRecord } from './missed_deletions.ts'

const backend = (name: string): RecordKey => `backend.bkdst_${name}`
const value = { host: 'a.example', port: 1, tls: false }
const [old, recent, gone, refused] = [backend('old'), backend('recent'), backend('gone'), backend('refused')]
const released = (floor?: number): Released => ({ records: [], applied: 100, ...(floor !== undefined && { floor }) })

/** A node with one record that was sent again, one that was deleted before, and one whose newer version it refused. */
function node(hasRecord: HasRecord = async (key) => key === refused, unfinished = new Map<RecordKey, EdgeRecord>()) {
  const known = new Map<RecordKey, EdgeRecord>(
    [
      { key: old, generation: 5, value },
      { key: recent, generation: 60, value },
      { key: gone, generation: 6, value: null },
      { key: refused, generation: 7, value },
    ].map((record) => [record.key, record as EdgeRecord]),
  )
  const warned: string[] = []
  const log = { warn: (_: object, text: string) => warned.push(text) } as unknown as Log
  const missed = createMissedDeletions(log, () => livingIn(known, unfinished), hasRecord)
  const taken: Released[] = []
  const run = async (take = async (deletions: Released[]) => void taken.push(...deletions)) => {
    if (missed.isDue()) await missed.apply(take)
  }
  return { missed, taken, run, warned }
}
const deletionOf = (key: RecordKey, generation: number) => ({ key, generation, value: null })

test('what was not sent again since the floor and is not in the bucket is deleted, once', async () => {
  const { missed, taken, run, warned } = node()
  missed.noteFloor([released(), released(50), released(20)])
  await run()
  assert.deepEqual(taken, [{ records: [deletionOf(old, 50)], applied: 50 }])
  assert.equal(warned.length, 1)
  missed.noteFloor([released(50)])
  assert.equal(missed.isDue(), false)
})

test('without a floor, nothing is deleted and NATS is not asked', async () => {
  const { missed, taken, run } = node(() => assert.fail())
  missed.noteFloor([released(), released(0)])
  await run()
  missed.noteFloor([released(5)])
  await run()
  assert.deepEqual(taken, [])
})

test('nothing is deleted until NATS has answered for everything', async () => {
  let answer: HasRecord = async (key) => (key === old ? false : undefined)
  const { missed, taken, run } = node((key) => answer(key))
  missed.noteFloor([released(50)])
  await run()
  answer = () => Promise.reject(new Error('timeout'))
  await run()
  assert.deepEqual([taken, missed.isDue()], [[], true])
  answer = async () => false
  await run()
  assert.deepEqual(taken[0]?.records.map(({ key }) => key).sort(), [old, refused])
})

test('deletions that cannot be applied, as on a full disk, are tried again', async () => {
  const { missed, taken, run } = node()
  missed.noteFloor([released(50)])
  await assert.rejects(() => run(() => Promise.reject(new Error('no space left on device'))))
  await run()
  assert.equal(taken.length, 1)
})

test('a policy that still waits for its file is deleted with the rest', async () => {
  const policy: EdgeRecord = { key: 'policy.ipp_1', generation: 8, value: { hash: 'a', bytes: 1, chunks: ['b'] } }
  const { missed, taken, run } = node(undefined, new Map([[policy.key, policy]]))
  missed.noteFloor([released(50)])
  await run()
  assert.deepEqual(taken[0]?.records, [deletionOf(old, 50), deletionOf(policy.key, 50)])
})
