import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createFairQueue } from './fair_queue.ts'

/** Jobs that the test ends one by one, and the order in which they began. */
function controlled(limits: { total: number; perLane: number }) {
  const began: string[] = []
  const ends = new Map<string, () => void>()
  const queue = createFairQueue(limits, (job) => {
    began.push(job)
    const { promise, resolve } = Promise.withResolvers<void>()
    ends.set(job, resolve)
    return promise
  })
  const end = async (job: string) => {
    ends.get(job)?.()
    await new Promise(setImmediate)
  }
  return { queue, began, end }
}

test('row 9: one lane with a thousand jobs leaves room for the others', () => {
  const { queue, began } = controlled({ total: 8, perLane: 3 })
  for (let index = 0; index < 1_000; index++) void queue.add(`bad${index}`, ['hostile'], 'urgent')
  void queue.add('good', ['honest'], 'urgent')
  assert.deepEqual(began, ['bad0', 'bad1', 'bad2', 'good'])
})

test('row 9: lanes take turns, and urgent jobs go before others', async () => {
  const { queue, began, end } = controlled({ total: 1, perLane: 1 })
  void queue.add('first', ['a'], 'other')
  for (const job of ['a1', 'a2']) void queue.add(job, ['a'], 'other')
  for (const job of ['b1', 'b2']) void queue.add(job, ['b'], 'other')
  void queue.add('c1', ['c'], 'urgent')
  for (const job of ['first', 'c1', 'a1', 'b1', 'a2', 'b2']) await end(job)
  assert.deepEqual(began, ['first', 'c1', 'a1', 'b1', 'a2', 'b2'])
})

test('row 9: a waiting job runs immediately, and once, when another lane wants it too', async () => {
  const { queue, began, end } = controlled({ total: 4, perLane: 1 })
  void queue.add('bad1', ['shared'], 'urgent')
  void queue.add('bad2', ['shared'], 'urgent')
  const first = queue.add('wanted', ['shared'], 'urgent')
  const second = queue.add('wanted', ['honest'], 'urgent')
  assert.deepEqual(began, ['bad1', 'wanted'])
  await end('wanted')
  await Promise.all([first, second])
  await end('bad1')
  await end('bad2')
  assert.deepEqual(began, ['bad1', 'wanted', 'bad2'])
})

test('stopping the queue releases those waiting for jobs that never started', async () => {
  const { queue } = controlled({ total: 1, perLane: 1 })
  void queue.add('running', ['a'], 'other')
  const waiting = queue.add('waiting', ['a'], 'other')
  queue.stop()
  await waiting
  await queue.add('later', ['a'], 'other')
})
