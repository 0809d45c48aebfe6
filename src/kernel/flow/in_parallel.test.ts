import assert from 'node:assert/strict'
import { test } from 'node:test'
import { inParallel } from './in_parallel.ts'

const soon = () => new Promise<void>((resolve) => setImmediate(resolve))

test('results keep the order of the items, and no more than so many are worked on at a time', async () => {
  let [running, most] = [0, 0]
  const doubled = await inParallel([1, 2, 3, 4, 5, 6, 7], 3, async (item) => {
    most = Math.max(most, ++running)
    for (let turn = 7; turn > item; turn--) await soon()
    running--
    return 2 * item
  })
  assert.deepEqual([doubled, most], [[2, 4, 6, 8, 10, 12, 14], 3])
  assert.deepEqual(await inParallel([], 3, () => assert.fail()), [])
})

test('after a failure nothing more is begun', async () => {
  const begun: number[] = []
  const work = async (item: number) => {
    begun.push(item)
    await soon()
    if (item === 2) throw new Error('no')
  }
  await assert.rejects(
    () =>
      inParallel(
        Array.from({ length: 100 }).map((_, index) => index),
        4,
        work,
      ),
    /no/,
  )
  for (let turn = 0; turn < 10; turn++) await soon()
  assert.ok(begun.length < 10, `${begun}`)
})

test('it rejects only after all the work it had started has finished', async () => {
  const ended: number[] = []
  const work = async (item: number) => {
    for (let turn = 0; turn < item; turn++) await soon()
    ended.push(item)
    if (item === 1) throw new Error('no')
  }
  await assert.rejects(() => inParallel([1, 5, 9], 3, work), /no/)
  assert.deepEqual(ended, [1, 5, 9])
})
