import assert from 'node:assert/strict'
import { test } from 'node:test'
import { random } from '../harness/random.ts'
import { type Series, trendOf } from './trends.ts'

const perHour = 120
const over = (minutes: number, at: (minute: number) => number): number[] =>
  Array.from({ length: (minutes * perHour) / 60 }, (_, sample) => at((sample * 60) / perHour))
const noise = (size: number): number => (random() - 0.5) * size
const sawTooth = (minute: number, period: number, height: number): number => ((minute % period) / period) * height

const steady: Record<string, [Series['unit'], number[]]> = {
  'memory that does not change': ['MiB', over(20, () => 100)],
  'noise of memory': ['MiB', over(20, () => 100 + noise(20))],
  'garbage that is collected every four minutes': ['MiB', over(20, (minute) => 100 + sawTooth(minute, 4, 60))],
  'garbage that is collected when a lot of it is there': ['MiB', over(60, (minute) => 100 + sawTooth(minute, 13, 80))],
  'warming up in the first third': ['MiB', over(30, (minute) => 150 - 50 * Math.exp(-minute / 2))],
  'a buffer that is full after two thirds of the time': ['MiB', over(24, (minute) => 20 + Math.min(minute, 16) / 2)],
  'a cache that fills by five percent an hour': ['MiB', over(60, (minute) => 100 + (5 * minute) / 60)],
  'a pool that grows once': ['count', over(20, (minute) => (minute < 12 ? 30 : 34))],
  'connections that come and go': ['count', over(20, () => Math.round(40 + noise(12)))],
  'latency with outliers': ['ms', over(20, (minute) => (minute % 5 === 0 ? 900 : 30 + noise(10)))],
}
const growing: Record<string, [Series['unit'], number[]]> = {
  'a leak of 30 % an hour under noise': ['MiB', over(20, (minute) => 100 + minute / 2 + noise(2))],
  'a leak under garbage that is collected': ['MiB', over(40, (minute) => 100 + minute + sawTooth(minute, 4, 40))],
  'a descriptor for each sample': ['count', over(20, (minute) => 40 + 2 * minute)],
  'a connection a minute among others that come and go': ['count', over(30, (minute) => 40 + minute + noise(4))],
  'latency that doubles': ['ms', over(20, (minute) => 30 + 6 * minute + noise(10))],
}

for (const [name, [unit, values]] of Object.entries(steady))
  test(`not a fault: ${name}`, () => assert.equal(trendOf({ name, unit, values }, perHour).fault, undefined))
for (const [name, [unit, values]] of Object.entries(growing))
  test(`a fault: ${name}`, () => {
    assert.match(trendOf({ name, unit, values }, perHour).fault ?? '', / grows: /)
    assert.equal(trendOf({ name, unit, values, mayGrow: 'it is kept for months' }, perHour).fault, undefined)
  })

test('noise is found to grow about once in a hundred series', () => {
  const found = Array.from({ length: 2_000 }, () => over(20, () => 100 + noise(50))).filter(
    (values) => trendOf({ name: 'noise', unit: 'count', values }, perHour).fault,
  )
  assert.ok(found.length < 60, `${found.length} of 2,000`)
})

test('medians of the thirds, and the slope of the last two', () => {
  const {
    first,
    last,
    perHour: slope,
  } = trendOf({ name: 'a', unit: 'MiB', values: over(30, (minute) => Math.max(10, minute)) }, perHour)
  assert.equal(first, 10)
  assert.equal(last, 25)
  assert.ok(Math.abs(slope - 60) < 0.001)
})
