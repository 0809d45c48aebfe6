import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createBell } from './bell.ts'

const never = new AbortController().signal
const long = 60_000

test('everyone who waits is woken by one ring', async () => {
  const bell = createBell()
  const waiting = [bell.wait(bell.count(), long, never), bell.wait(bell.count(), long, never)]
  bell.ring()
  await Promise.all(waiting)
})

test('a ring during a look ends the wait after it', async () => {
  const bell = createBell()
  const before = bell.count()
  bell.ring()
  await bell.wait(before, long, never)
})

test('a ring before the look does not count, and the time and the signal end a wait', async () => {
  const bell = createBell()
  bell.ring()
  await bell.wait(bell.count(), 1, never)
  await bell.wait(bell.count(), long, AbortSignal.abort())
  const ending = new AbortController()
  const waiting = bell.wait(bell.count(), long, ending.signal)
  ending.abort()
  await waiting
  assert.equal(bell.count(), 1)
})
