import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createLiveSet } from '../../distribution/live_set.ts'
import type { EdgeRecord, RecordKey } from '../../distribution/records.ts'
import { createArrivals } from './arrivals.ts'

const known = new Map<RecordKey, EdgeRecord>()
const keyOf = (name: string) => `backend.${name}` as RecordKey
const apply = (name: string, generation: number, isLive = true) =>
  known.set(keyOf(name), record(name, generation, isLive))
const digestOf = (...records: [string, number][]) => {
  const set = createLiveSet()
  for (const [name, generation] of records) set.add(keyOf(name), generation)
  return set.digest()
}

const record = (name: string, generation: number, isLive = true): EdgeRecord => ({
  key: keyOf(name),
  generation,
  value: isLive ? { host: 'a.example', port: 1, tls: false } : null,
})
const expectAfter = (arrivals: ReturnType<typeof createArrivals>, records: EdgeRecord[], live?: string) =>
  arrivals.expect(
    [{ records, applied: 9, ...(live !== undefined && { live }) }],
    new Map(records.map((each) => [each.key, each])),
    0,
  )

test('a record that could not be applied has arrived; a missing one, an older one and an extra one make a difference', () => {
  known.clear()
  apply('a', 1)
  apply('gone', 2, false)
  const arrivals = createArrivals(known)
  // Refused by the proxy: `known` stays without it.
  const first = expectAfter(arrivals, [record('b', 3)], digestOf(['a', 1], ['b', 3]))
  first?.()
  assert.ok(first && expectAfter(arrivals, [], digestOf(['a', 1], ['b', 3])))
  assert.equal(arrivals.differs(), false)
  assert.equal(expectAfter(arrivals, [], digestOf(['a', 1])), undefined)
  assert.equal(expectAfter(arrivals, [record('b', 2)], digestOf(['a', 1], ['b', 2])), undefined)
  assert.equal(arrivals.differs(), true)

  const second = expectAfter(arrivals, [record('b', 4), record('a', 5, false)], digestOf(['b', 4]))
  apply('b', 4)
  apply('a', 5, false)
  second?.()
  assert.ok(second && expectAfter(arrivals, [], digestOf(['b', 4])))
})

test('without a digest nothing is compared, and what arrived meanwhile counts later', () => {
  known.clear()
  apply('a', 1)
  const arrivals = createArrivals(known)
  const arrived = expectAfter(arrivals, [record('b', 2), record('c', 2)])
  apply('b', 2)
  arrived?.()
  assert.ok(arrived && expectAfter(arrivals, [], digestOf(['a', 1], ['b', 2], ['c', 2])))
})

test('a state that was read whole stands for what is newer than something in it, and not for what came after it', () => {
  known.clear()
  apply('a', 5, false)
  apply('b', 6)
  const arrivals = createArrivals(known)
  // Refused by the proxy, one before that state and one after it.
  expectAfter(arrivals, [record('c', 7), record('d', 12)])?.()
  const state = [record('a', 3), record('b', 6)]
  const arriving = new Map([[keyOf('a'), record('a', 3)]])
  const taken = arrivals.expect(
    [{ records: state, applied: 9, isWhole: true, live: 'compared by the intake' }],
    arriving,
    0,
  )
  apply('a', 3)
  taken?.()
  assert.ok(taken && expectAfter(arrivals, [], digestOf(['a', 3], ['b', 6], ['d', 12])))
})
