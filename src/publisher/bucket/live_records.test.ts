import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createLiveSet } from '../../distribution/live_set.ts'
import { createLiveRecords } from './live_records.ts'

const digestOf = (...records: [string, number][]) => {
  const set = createLiveSet()
  for (const [key, generation] of records) set.add(key, generation)
  return set.digest()
}

test('the digest does not depend on order, and a record that is gone leaves no trace', () => {
  const live = createLiveRecords()
  for (const [key, generation] of [
    ['b', 1],
    ['a', 2],
    ['b', 3],
    ['c', 4],
    ['c', undefined],
  ] as const)
    live.sent(key, generation)
  assert.equal(live.digest(), digestOf(['a', 2], ['b', 3]))
  assert.notEqual(live.digest(), digestOf(['a', 3], ['b', 2]))
})

test('a comparison replaces what was believed, except for what was sent during it', () => {
  const live = createLiveRecords()
  for (const key of ['lost', 'same', 'changed', 'deleted']) live.sent(key, 1)
  const comparison = live.beginComparison()
  assert.equal(comparison.isSent('changed', 1), false)
  live.sent('changed', 2)
  live.sent('deleted', undefined)
  live.sent('new', 3)
  assert.equal(comparison.isSent('changed', 1), true, 'the bucket still has the generation before')
  for (const key of ['same', 'deleted', 'found']) comparison.found(key, 1)
  comparison.end()
  assert.equal(live.digest(), digestOf(['same', 1], ['found', 1], ['changed', 2], ['new', 3]))
  live.sent('found', undefined)
  assert.equal(live.digest(), digestOf(['same', 1], ['changed', 2], ['new', 3]))
})

test('the end of a comparison costs little, however many records were found', () => {
  const comparison = createLiveRecords().beginComparison()
  const measured = (work: () => void) => {
    const before = process.threadCpuUsage()
    work()
    const { user, system } = process.threadCpuUsage(before)
    return user + system
  }
  const finding = measured(() => {
    for (let n = 0; n < 20_000; n++) comparison.found(`key ${n}`, n)
  })
  const ending = measured(comparison.end)
  assert.ok(ending < finding / 5, `${ending} µs, and ${finding} for finding them`)
})
