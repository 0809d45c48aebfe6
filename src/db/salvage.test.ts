import assert from 'node:assert/strict'
import { test } from 'node:test'
import { writeSalvaging } from './salvage.ts'

const fault = Object.assign(new Error('out of range'), { code: '22003' })

test('only the rows that the database refuses are dropped, and all others are written once', async () => {
  const rows = Array.from({ length: 100 }, (_, index) => index)
  const bad = [0, 17, 18, 99]
  const written: number[] = []
  const dropped: number[] = []
  await writeSalvaging(
    rows,
    async (some) => {
      if (some.some((row) => bad.includes(row))) throw fault
      written.push(...some)
    },
    (row) => dropped.push(row),
  )
  assert.deepEqual(dropped, bad)
  assert.deepEqual(
    written,
    rows.filter((row) => !bad.includes(row)),
  )
})

test('errors not caused by a row are thrown, and drop nothing', async () => {
  const gone = Object.assign(new Error('gone'), { code: '57P01' })
  const write = () => Promise.reject(gone)
  await assert.rejects(writeSalvaging([1, 2], write, assert.fail), gone)
})
