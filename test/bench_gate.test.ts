import assert from 'node:assert/strict'
import { test } from 'node:test'
import { faultsOf, nameOf, type Ratio, readRecorded } from '../bench/gate.ts'
import { spreadOf } from '../bench/harness/statistics.ts'

const recorded = { 'write: ours, of bare': { median: 0.8, low: 0.75, high: 0.85 } }
const ratio = (values: number[], fields: Partial<Ratio> = {}): Ratio => ({
  ...{ bench: 'write', of: 'ours', to: 'bare', higherIs: 'better' as const, spread: spreadOf(values) },
  ...fields,
})

test('a ratio that falls beyond both spreads and the margin is a fault, and one within them is none', () => {
  assert.deepEqual(faultsOf([ratio([0.7, 0.75, 0.8]), ratio([0.9, 0.95, 1])], recorded), [])
  const [fault, ...others] = faultsOf([ratio([0.6, 0.62, 0.64])], recorded)
  assert.equal(fault, 'write: ours, of bare: 0.62, recorded 0.80 (0.75–0.85)')
  assert.deepEqual(others, [])
})

test('where ours is divided, a rise is the fault', () => {
  const worse = { higherIs: 'worse' as const }
  assert.deepEqual(faultsOf([ratio([0.6, 0.62, 0.64], worse)], recorded), [])
  assert.equal(faultsOf([ratio([1, 1.1, 1.2], worse)], recorded).length, 1)
})

test('what cannot be told is a fault: no record, no figure, or two equal programs that differ', () => {
  assert.match(faultsOf([ratio([1], { to: 'other' })], recorded)[0] ?? '', /nothing is recorded/)
  assert.equal(faultsOf([ratio([])], recorded).length, 1)
  const control = { of: 'ours again', to: 'ours' }
  assert.deepEqual(faultsOf([ratio([0.9, 1, 1.1], control)], recorded), [])
  for (const values of [[0.6], [1.5], []])
    assert.match(faultsOf([ratio(values, control)], recorded)[0] ?? '', /two equal programs differ/)
})

test('the recorded figures name what the benches measure', async () => {
  const names = Object.keys(await readRecorded())
  assert.ok(names.includes(nameOf({ bench: 'write', of: 'Gatehouse', to: 'bare, five round trips' })))
  for (const { low, median, high } of Object.values(await readRecorded())) assert.ok(low <= median && median <= high)
})
