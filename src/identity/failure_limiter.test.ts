import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseAddress } from '../kernel/ip/address.ts'
import { createFailureLimiter } from './failure_limiter.ts'

const [home, neighbor] = [parseAddress('2001:db8::1'), parseAddress('2001:db8::ffff:2')]
const elsewhere = parseAddress('192.0.2.1')
const limit = { requests: 10, seconds: 60 }

test('after ten failures a network must wait until it has earned another; other networks need not', () => {
  let now = 1_000_000
  const { countFailure } = createFailureLimiter(() => now, limit)
  for (let i = 0; i < 10; i++) assert.ok(countFailure(i % 2 ? home : neighbor).allowed)
  now += 2_500
  assert.deepEqual(countFailure(home), { allowed: false, remaining: 0, waitSeconds: 4 })
  assert.ok(countFailure(parseAddress('2001:db8:0:1::1')).allowed)
  assert.ok(countFailure(elsewhere).allowed)
  assert.ok(countFailure(undefined).allowed)
  now += 3_500
  assert.ok(countFailure(home).allowed)
  assert.ok(!countFailure(home).allowed)
})

test('each IPv4 address has its own limit, and so do all sources that cannot be read', () => {
  const { countFailure } = createFailureLimiter(() => 1_000_000, limit)
  const sources = [elsewhere, parseAddress('192.0.2.2'), undefined]
  for (const source of sources) {
    for (let i = 0; i < 10; i++) assert.ok(countFailure(source).allowed)
    assert.ok(!countFailure(source).allowed)
  }
})
