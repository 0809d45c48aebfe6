import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Crowded, createGate } from './gate.ts'

const limits = { total: 3, perOwner: 1, maxWaitingPerOwner: 2, waitMs: 10_000 }
const settled = () => new Promise(setImmediate)

test('an owner runs one at a time, and waiting jobs run in order of arrival', async () => {
  const gate = createGate(limits)
  const order: string[] = []
  const endFirst = await gate.enter('a')
  const enter = async (name: string) => {
    const end = await gate.enter('a')
    order.push(name)
    return end
  }
  const [second, third] = [enter('second'), enter('third')]
  await settled()
  assert.deepEqual([order, gate.counts()], [[], { running: 1, waiting: 2 }])
  endFirst()
  ;(await second)()
  ;(await third)()
  assert.deepEqual([order, gate.counts()], [['second', 'third'], { running: 0, waiting: 0 }])
})

test('an owner with a long queue does not hold up another', async () => {
  const gate = createGate({ ...limits, total: 1 })
  const order: string[] = []
  const enter = async (owner: string) => {
    const end = await gate.enter(owner)
    order.push(owner)
    await settled()
    end()
  }
  const first = enter('a')
  const rest = [enter('a'), enter('a'), enter('b')]
  await Promise.all([first, ...rest])
  assert.deepEqual(order, ['a', 'a', 'b', 'a'])
})

test('jobs beyond the queue limit are refused immediately, and those that wait too long are refused then', async () => {
  const gate = createGate({ ...limits, waitMs: 20 })
  const end = await gate.enter('a')
  const waiting = [gate.enter('a'), gate.enter('a')]
  await assert.rejects(gate.enter('a'), (error) => error instanceof Crowded && error.limit === 'owner')
  for (const one of waiting) await assert.rejects(one, Crowded)
  end()
  assert.deepEqual(gate.counts(), { running: 0, waiting: 0 })
  ;(await gate.enter('a'))()
})

test('a wait caused by other owners is reported as such', async () => {
  const gate = createGate({ ...limits, total: 1, waitMs: 20 })
  const end = await gate.enter('a')
  await assert.rejects(gate.enter('b'), (error) => error instanceof Crowded && error.limit === 'total')
  end()
})

test('a client that disconnects while waiting leaves the queue', async () => {
  const gate = createGate(limits)
  const end = await gate.enter('a')
  const client = new AbortController()
  const waiting = gate.enter('a', client.signal)
  client.abort(new Error('gone'))
  await assert.rejects(waiting, /gone/)
  assert.deepEqual(gate.counts(), { running: 1, waiting: 0 })
  end()
  end()
  assert.deepEqual(gate.counts(), { running: 0, waiting: 0 }, 'ending twice counts once')
})

test('the limit on running jobs holds across owners', async () => {
  const gate = createGate(limits)
  let most = 0
  await Promise.all(
    Array.from({ length: 60 }, async (_, index) => {
      const end = await gate.enter(`owner ${index % 30}`)
      most = Math.max(most, gate.counts().running)
      await settled()
      end()
    }),
  )
  assert.equal(most, 3)
})
