import assert from 'node:assert/strict'
import { test } from 'node:test'
import { confirmAtRandom, undoWithoutEffect } from './confirm/trials.ts'
import { sized } from './harness/thorough.ts'

// `npm run drill -- confirm` has many more.
test('a change set that no one confirms is undone in time while processes and PostgreSQL are killed, and never after a confirmation', async (t) => {
  const { faults, ...figures } = await confirmAtRandom(t, { rounds: sized(5, 20), trialsPerRound: 8 })
  t.diagnostic(JSON.stringify(figures))
  assert.deepEqual(faults, [])
  assert.ok(figures.confirmed > 0 && figures.reverted > 0)
})

test('that is noticed when undoing has no effect', async (t) => {
  const { faults } = await confirmAtRandom(t, { rounds: 1, trialsPerRound: 4, prepare: undoWithoutEffect })
  assert.ok(
    faults.some((fault) => fault.endsWith('is revert_failed')),
    faults.join(', '),
  )
})
