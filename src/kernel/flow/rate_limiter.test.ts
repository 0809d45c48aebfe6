import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createRateLimiter } from './rate_limiter.ts'

const perMinute = (requests: number) => ({ requests, seconds: 60 })

test('an owner has its whole allowance at once, and then one after another', () => {
  let now = 1_700_000_000_000
  const { take } = createRateLimiter(() => now, 100)
  for (let left = 9; left >= 0; left--)
    assert.deepEqual(take('a', perMinute(10)), { allowed: true, remaining: left, waitSeconds: 60 - 6 * left })
  assert.deepEqual(take('a', perMinute(10)), { allowed: false, remaining: 0, waitSeconds: 6 })
  now += 5_500
  assert.deepEqual(take('a', perMinute(10)), { allowed: false, remaining: 0, waitSeconds: 1 })
  assert.equal(take('b', perMinute(10)).remaining, 9)
  now += 500
  assert.equal(take('a', perMinute(10)).allowed, true)
  assert.equal(take('a', perMinute(10)).allowed, false)
  now += 60_000
  assert.deepEqual(take('a', perMinute(10)), { allowed: true, remaining: 9, waitSeconds: 6 })
})

test('a refused request costs nothing, so a caller that keeps trying is not shut out for longer', () => {
  let now = 0
  const { take } = createRateLimiter(() => now, 100)
  for (let i = 0; i < 1_000; i++) take('a', perMinute(10))
  now += 6_000
  assert.equal(take('a', perMinute(10)).allowed, true)
})

test('rounding never costs a request, even after a year', () => {
  for (const requests of [1, 3, 7, 60, 999, 6_000, 60_000]) {
    let now = 1_731_672_000_123
    const { take } = createRateLimiter(() => now, 100)
    now += 86_400_000 * 365
    for (let i = 0; i < requests; i++) assert.equal(take('a', perMinute(requests)).allowed, true, `${i} of ${requests}`)
    assert.equal(take('a', perMinute(requests)).allowed, false)
  }
})

test('a changed limit holds from the next request on', () => {
  const { take } = createRateLimiter(() => 0, 100)
  for (let i = 0; i < 10; i++) take('a', perMinute(10))
  assert.equal(take('a', perMinute(10)).allowed, false)
  assert.equal(take('a', perMinute(1)).allowed, false)
  assert.equal(createRateLimiter(() => 0, 100).take('a', perMinute(1)).allowed, true)
})

test('a million owners cost bounded memory, and active owners are not forgotten', () => {
  const { take, size } = createRateLimiter(() => 0, 1_000)
  for (let i = 0; i < 1_000_000; i++) {
    take(`flood ${i}`, perMinute(1_000_000))
    // More often than the older generation changes.
    if (i % 400 === 0) take('a', perMinute(1_000_000))
  }
  assert.ok(size() <= 1_000, String(size()))
  assert.equal(take('a', perMinute(1_000_000)).remaining, 1_000_000 - 2_501)
})
