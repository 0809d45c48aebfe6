import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseAddress } from '../kernel/ip/address.ts'
import { createBrake } from './brake.ts'

const [home, neighbour] = [parseAddress('2001:db8::1'), parseAddress('2001:db8::ffff:2')]
const elsewhere = parseAddress('192.0.2.1')

test('ten failures of a network stop it until the minute is over, and nobody else', () => {
  let now = 1_000_000
  const brake = createBrake(() => now)
  for (let i = 0; i < 10; i++) assert.equal(brake.attempt(i % 2 ? home : neighbour), 0)
  now += 20_500
  assert.equal(brake.attempt(home), 40)
  assert.equal(brake.attempt(elsewhere), 0)
  assert.equal(brake.attempt(undefined), 0)
  now += 39_500
  assert.equal(brake.attempt(home), 0)
})

test('what succeeds does not count', () => {
  const brake = createBrake(() => 0)
  for (let i = 0; i < 100; i++) {
    assert.equal(brake.attempt(elsewhere), 0)
    brake.forgive(elsewhere)
  }
})

test('a flood from ever new addresses is forgotten, oldest first', () => {
  const brake = createBrake(() => 0)
  for (let i = 0; i < 10; i++) brake.attempt(elsewhere)
  for (let value = 0; value < 20_000; value++) brake.attempt({ family: 4, value })
  assert.equal(brake.attempt(elsewhere), 0)
})
