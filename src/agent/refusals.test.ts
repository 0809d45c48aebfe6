import assert from 'node:assert/strict'
import { test } from 'node:test'
import { maxRefusedGenerations } from '../distribution/channels.ts'
import type { RecordKey } from '../distribution/records.ts'
import { newId } from '../kernel/ids.ts'
import { createRefusals } from './refusals.ts'

const keyOf = (kind = 'tcp'): RecordKey => `${kind}.${newId('edgtcp')}` as RecordKey
const [first, second] = [keyOf(), keyOf()]
const at = '1970-01-01T00:00:01.000Z'

function start(logged = new Map<RecordKey, { key: string; generation: number | null; reason: string; at: string }>()) {
  const seen = { changes: 0, lines: [] as string[] }
  const note = (_fields: unknown, text: string) => void seen.lines.push(text)
  const log = { info: note, warn: note, error: note }
  return { seen, refusals: createRefusals({ log, clock: () => 1_000, logged, onChange: () => void seen.changes++ }) }
}

test('a record stays refused until the same generation of it or a later one is in force', () => {
  const { refusals, seen } = start()
  refusals.refuse({ key: first, generation: 5, reason: 'has no backend' })
  assert.deepEqual([...refusals.records.values()], [{ key: first, generation: 5, reason: 'has no backend', at }])
  refusals.accept(first, 4)
  refusals.accept(second, 9)
  assert.deepEqual([refusals.records.size, seen.changes], [1, 1])
  refusals.accept(first, 5)
  assert.deepEqual([refusals.records.size, seen.changes], [0, 2])
})

test('a refusal of an earlier agent is not in force either', () => {
  const logged = { key: first, generation: 5, reason: 'is of a later version', at }
  const { refusals } = start(new Map([[first, logged]]))
  assert.deepEqual(refusals.latest(), [logged])
  assert.equal(refusals.counts().lowest, 5)
  assert.equal(refusals.isBehind(), false, 'the log has it')
})

test('what the log does not have yet is written once, and again if it changes meanwhile', () => {
  const { refusals } = start()
  const refuse = (reason: string) => refusals.refuse({ key: first, generation: 5, reason })
  refuse('one')
  assert.equal(refusals.isBehind(), true)
  const { refusals: toWrite, done } = refusals.toLog()
  assert.deepEqual(toWrite, [{ key: first, generation: 5, reason: 'one', at }])
  refuse('two')
  done()
  assert.equal(refusals.isBehind(), true, 'it has changed meanwhile')
  refusals.toLog().done()
  assert.equal(refusals.isBehind(), false)
  refuse('two')
  assert.equal(refusals.isBehind(), false, 'the same again')
  refusals.refuse({ key: first, generation: 6, reason: 'two' })
  assert.equal(refusals.isBehind(), true, 'of another generation')
  refusals.accept(first, 6)
  assert.deepEqual(refusals.toLog().refusals, [{ key: first, reason: null }])
  refusals.toLog().done()
  assert.equal(refusals.isBehind(), false)
})

test('refusals that are of no record are shown once each, not logged, and do not count as generations', () => {
  const { refusals } = start()
  for (const reason of ['one', 'two', 'one']) refusals.refuse({ key: 'proxy', generation: null, reason })
  refusals.refuse({ key: 'proxy 2', generation: null, reason: 'two' })
  refusals.refuse({ key: 'no record', generation: 3, reason: 'three' })
  refusals.refuse({ key: first, generation: null, reason: 'four' })
  assert.deepEqual(
    refusals.latest().map(({ key, reason }) => [key, reason]),
    [
      ['proxy', 'two'],
      ['proxy', 'one'],
      ['proxy 2', 'two'],
      ['no record', 'three'],
      [first, 'four'],
    ],
  )
  assert.equal(refusals.isBehind(), false)
  assert.deepEqual(refusals.counts(), { records: 0, lowest: null, generations: [] })
})

test('the latest twenty of each kind are shown, so that refused upstreams hide no record', () => {
  const { refusals } = start()
  const keys = Array.from({ length: 25 }, () => keyOf())
  for (const [index, key] of keys.entries()) {
    refusals.refuse({ key, generation: 100 + index, reason: 'wrong' })
    refusals.upstreams.refused({ key: keyOf('backend'), generation: 200 + index, value: null }, 'loopback', '::1')
  }
  refusals.refuse({ key: keys[0] as RecordKey, generation: 100, reason: 'wrong' })
  const shown = refusals.latest().map(({ generation }) => generation)
  assert.deepEqual(shown, [
    ...Array.from({ length: 19 }, (_, index) => 106 + index),
    100,
    ...Array.from({ length: 20 }, (_, index) => 205 + index),
  ])
  assert.equal(refusals.counts().records, 50)
})

test('the counts name the lowest generation and the latest few hundred, each once, and follow every change', () => {
  const { refusals } = start()
  assert.deepEqual(refusals.counts(), { records: 0, lowest: null, generations: [] })
  const upstream = keyOf('backend')
  for (const generation of [9, 100, 20]) refusals.refuse({ key: keyOf(), generation, reason: 'wrong' })
  refusals.upstreams.refused({ key: upstream, generation: 100, value: null }, 'loopback', '::1')
  assert.deepEqual(refusals.counts(), { records: 4, lowest: 9, generations: [9, 20, 100] })
  refusals.upstreams.accepted(upstream)
  assert.equal(refusals.counts().records, 3)
  for (let generation = 1_000; generation < 1_000 + maxRefusedGenerations; generation++)
    refusals.refuse({ key: keyOf(), generation, reason: 'wrong' })
  const { lowest, generations } = refusals.counts()
  assert.deepEqual([lowest, generations.length, generations[0]], [9, maxRefusedGenerations, 1_000])
})

test('an upstream that may be dialed after all, or is gone, is not refused any more', () => {
  const { refusals, seen } = start()
  const [one, two] = [keyOf('backend'), keyOf('backend')]
  for (const key of [one, two]) refusals.upstreams.refused({ key, generation: 7, value: null }, 'is a loopback', '::1')
  assert.deepEqual(refusals.latest()[0], { key: one, generation: 7, reason: 'is a loopback', at })
  refusals.upstreams.accepted(one)
  refusals.upstreams.forget(two)
  assert.deepEqual([refusals.latest(), seen.changes], [[], 4])
  refusals.upstreams.forget(two)
  refusals.upstreams.accepted(one)
  assert.equal(seen.changes, 4)
})

test('keys and reasons are shown in plain text and cut off', () => {
  const { refusals } = start()
  refusals.refuse({ key: `x\n${'y'.repeat(300)}`, generation: null, reason: `a\u001b[31m\u2028b${'c'.repeat(500)}` })
  const [{ key, reason } = assert.fail()] = refusals.latest()
  assert.equal(key, `x ${'y'.repeat(198)}`)
  assert.equal(reason, `a [31m b${'c'.repeat(392)}`)
})
