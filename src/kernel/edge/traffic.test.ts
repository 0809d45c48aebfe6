import assert from 'node:assert/strict'
import { test } from 'node:test'
import { random } from '../../../test/harness/random.ts'
import { lastLatencyBucket, latencyBucket, latencyOfBucket, latencyQuantile } from './traffic.ts'

test('quantiles from buckets are within 2 % of those of the values themselves', () => {
  for (let round = 0; round < 50; round++) {
    const spread = 1 + random() * 10
    const values = Array.from({ length: 1_000 }, () => Math.round(Math.exp(random() * spread)))
    const counts = new Map<number, number>()
    for (const value of values) counts.set(latencyBucket(value), (counts.get(latencyBucket(value)) ?? 0) + 1)
    const buckets = [...counts].sort(([a], [b]) => a - b)
    values.sort((a, b) => a - b)
    for (const share of [0.5, 0.95, 0.99, 1]) {
      const exact = values[Math.ceil(share * values.length) - 1] ?? Number.NaN
      const found = latencyQuantile(buckets, share) ?? Number.NaN
      assert.ok(Math.abs(found - exact) <= exact * 0.02, `${share} of up to ${values.at(-1)}: ${found}, not ${exact}`)
    }
  }
})

test('buckets ascend with the latency, and the last one takes what is longer than an hour', () => {
  let before = -1
  for (let ms = 0; ms < 4_000_000; ms = ms < 3_000 ? ms + 1 : Math.ceil(ms * 1.01)) {
    const bucket = latencyBucket(ms)
    assert.ok(bucket >= before, `${ms} ms`)
    before = bucket
  }
  assert.equal(before, lastLatencyBucket)
  assert.equal(latencyBucket(Number.MAX_SAFE_INTEGER), lastLatencyBucket)
  assert.equal(latencyOfBucket(latencyBucket(7)), 7)
  assert.equal(latencyQuantile([], 0.5), undefined)
})
