import assert from 'node:assert/strict'
import { test } from 'node:test'
import { printed, sized } from '../harness/thorough.ts'
import { compareWithSpecification } from './compare.ts'

const wanted = sized(2_000, 5_000)
test(`${printed(wanted)} requests to random accounts get what the documentation says, and are counted so`, async (t) => {
  const seed = Number(process.env.GATEHOUSE_TEST_SEED ?? 20_775)
  const { requests, differences, outcomes } = await compareWithSpecification(
    t,
    { seed, accounts: 10, requests: wanted, rounds: 3 },
    (line) => t.diagnostic(line),
  )
  // Those of requests come first, those of counts last.
  const some = differences.length > 8 ? [...differences.slice(0, 2), ...differences.slice(-6)] : differences
  assert.equal(differences.length, 0, `${differences.length} differences, among them:\n${some.join('\n')}`)
  assert.ok(requests >= wanted)
  for (const outcome of ['allowed', 'refused', 'warned', 'failed'])
    assert.ok((outcomes[outcome] ?? 0) > requests / 50, `too few were ${outcome}: ${JSON.stringify(outcomes)}`)
  assert.ok((outcomes.handshakes ?? 0) > 20, `too few handshakes were refused: ${JSON.stringify(outcomes)}`)
})
