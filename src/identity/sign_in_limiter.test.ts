import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseAddress } from '../kernel/ip/address.ts'
import { createSignInLimiter } from './sign_in_limiter.ts'

const [home, neighbor] = [parseAddress('2001:db8::1'), parseAddress('2001:db8::ffff:2')]
const elsewhere = parseAddress('192.0.2.1')

test('after ten failures a network must wait until the minute ends; other networks need not', () => {
  let now = 1_000_000
  const { countFailure } = createSignInLimiter(() => now)
  for (let i = 0; i < 10; i++) assert.equal(countFailure(i % 2 ? home : neighbor), 0)
  now += 20_500
  assert.equal(countFailure(home), 40)
  assert.equal(countFailure(elsewhere), 0)
  assert.equal(countFailure(undefined), 0)
  now += 39_500
  assert.equal(countFailure(home), 0)
})

test('under a flood from changing addresses, the oldest are forgotten first', () => {
  const { countFailure } = createSignInLimiter(() => 0)
  for (let i = 0; i < 10; i++) countFailure(elsewhere)
  for (let value = 0; value < 20_000; value++) countFailure({ family: 4, value })
  assert.equal(countFailure(elsewhere), 0)
})
