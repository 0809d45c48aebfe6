import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { EdgeRecord, RecordKey } from '../distribution/records.ts'
import type { Released } from './intake/intake.ts'
import { deletionsBy } from './plan.ts'

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
