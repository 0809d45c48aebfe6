// The real publisher, distribution and agent in a simulated world: see docs/adr/0099-simulation.md.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { open, seal } from '../../src/distribution/signature.ts'
import { printed, sized } from '../harness/thorough.ts'
import { controls, firstFound } from './controls.ts'
import { firstSeedWithMoves, firstSeedWithWaves, live } from './history_of_seed.ts'
import { keysOf } from './signatures.ts'

const seeds = sized(40, 1_500)
const seedsWithMoves = sized(25, 500)
const seedsWithWaves = sized(20, 500)

async function assertRight(seed: number): Promise<void> {
  const { violation } = await live(seed)
  if (!violation) return
  const { story } = await live(seed, { isTraced: true })
  assert.fail(`seed ${seed}: ${violation}\n${story.slice(-200).join('\n')}\nnpm run simulate -- --seed ${seed}`)
}

test(`nothing goes wrong in ${printed(seeds)} histories`, async () => {
  for (let seed = 1; seed <= seeds; seed++) await assertRight(seed)
})

test(`nothing goes wrong in ${printed(seedsWithMoves)} histories in which accounts move between cells`, async () => {
  for (let seed = 0; seed < seedsWithMoves; seed++) await assertRight(firstSeedWithMoves + seed)
})

test(`nothing goes wrong in ${printed(seedsWithWaves)} histories in which rollouts are released and halted`, async () => {
  for (let seed = 0; seed < seedsWithWaves; seed++) await assertRight(firstSeedWithWaves + seed)
})

test('nothing goes wrong any more in histories that found a defect', async () => {
  const found = [
    283, 373, 434, 569, 628, 1_152, 100_670, 201_275, 201_627, 300_608, 406_587, 503_341, 1_106_101, 2_000_053,
    2_000_157, 2_100_082, 2_100_304, 2_101_935, 2_101_983, 2_103_165, 2_504_842, 2_507_588,
  ]
  for (const seed of found) await assertRight(seed)
})

test('an entry that a defect signs as of the last generation there is stops neither nodes nor the publisher', async () => {
  for (let seed = 1; seed <= sized(10, 200); seed++) {
    const { violation } = await live(seed, { broken: { faults: ['an entry of the last generation is signed'] } })
    assert.equal(violation, undefined, `seed ${seed}`)
  }
})

test('a seed makes the same history each time', async () => {
  for (const seed of [3, 14, 15]) {
    const [first, second] = [await live(seed, { isTraced: true }), await live(seed, { isTraced: true })]
    assert.ok(first.story.length > 20)
    assert.deepEqual(first, second)
  }
})

test('the cheap signatures of most histories, and the real ones of the others, cannot be moved to another payload', () => {
  for (const seed of [31, 32]) {
    const { signer, trusted } = keysOf(seed)
    const [mine, other] = [seal({ settled: 1 }, signer), seal({ settled: 2 }, signer)].map((text) => JSON.parse(text))
    assert.deepEqual(open(JSON.stringify(mine), trusted), { payload: { settled: 1 } })
    const moved = JSON.stringify({ ...mine, signature: other.signature })
    assert.deepEqual(open(moved, trusted), { fault: 'has a wrong signature' })
    assert.equal(mine.signature.length, 88)
  }
})

const enough = 1_000
for (const [fault, broken] of Object.entries(controls))
  test(`control: ${fault}`, async (t) => {
    const found = await firstFound(broken, enough)
    assert.ok(found, `not found within ${enough} seeds: the simulation is blind to it`)
    t.diagnostic(`found with seed ${found.seed}: ${found.violation.slice(0, 150)}`)
  })
