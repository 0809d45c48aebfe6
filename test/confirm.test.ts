import assert from 'node:assert/strict'
import { test } from 'node:test'
import { confirmAtRandom, undoForShow, undoWithoutEffect } from './confirm/trials.ts'
import { sized } from './harness/thorough.ts'

// `npm run drill -- confirm` has many more.
test('a change set that no one confirms is undone in time while processes and PostgreSQL are killed, and never after a confirmation', async (t) => {
  const { faults, ...figures } = await confirmAtRandom(t, { rounds: sized(5, 20), trialsPerRound: 8 })
  t.diagnostic(JSON.stringify(figures))
  assert.deepEqual(faults, [])
  assert.ok(figures.confirmed > 0 && figures.reverted > 0)
})

for (const [prepare, fault] of [
  [undoWithoutEffect, 'is revert_failed'],
  [undoForShow, 'reverted, and its change is after'],
] as const)
  test(`that is noticed with ${prepare.name}`, async (t) => {
    const { faults } = await confirmAtRandom(t, { rounds: 1, trialsPerRound: 4, prepare })
    assert.ok(
      faults.some((each) => each.endsWith(fault)),
      faults.join(', '),
    )
  })
