import assert from 'node:assert/strict'
import { test } from 'node:test'
import { jittered } from './jitter.ts'

test('a thousand that wait as long do not end in the same moment', () => {
  const waits = Array.from({ length: 1_000 }, () => jittered(2_000))
  assert.ok(waits.every((ms) => ms >= 1_000 && ms <= 3_000))
  const fullest = Math.max(
    ...[...Map.groupBy(waits, (ms) => Math.floor(ms / 100)).values()].map(({ length }) => length),
  )
  assert.ok(fullest < 150, `${fullest} of them within a tenth of a second`)
})
