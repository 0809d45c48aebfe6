import assert from 'node:assert/strict'
import { test } from 'node:test'
import { acknowledgingTooEarly, crashPostgres, crashProcesses, figuresOf } from './durability/crashes.ts'
import { sized } from './harness/thorough.ts'

// `npm run drill -- durability` kills far more often.
const kills = sized(3, 5)
const outages = sized(2, 3)

test('kill -9 of a process mid-request loses nothing acknowledged, and the audit matches the changes', async (t) => {
  const crashed = await crashProcesses(t, kills)
  t.diagnostic(figuresOf(crashed))
  assert.deepEqual(crashed.faults, [])
  assert.ok(crashed.ledger.unanswered >= kills, 'no request was under way when the process was killed')
  assert.ok(crashed.ledger.acknowledged.size > 100)
})

test('kill -9 of PostgreSQL mid-write loses nothing acknowledged, and the service recovers by itself', async (t) => {
  const crashed = await crashPostgres(t, { times: outages })
  t.diagnostic(figuresOf(crashed))
  assert.deepEqual(crashed.faults, [])
  assert.ok(
    crashed.ledger.unanswered + crashed.ledger.refused >= outages,
    'no request was under way when it was killed',
  )
  assert.ok(crashed.ledger.acknowledged.size > 200)
})

test('the ledger can fail: it reports loss when PostgreSQL acknowledges before writing', async (t) => {
  const crashed = await crashPostgres(t, { times: 1, flags: acknowledgingTooEarly })
  t.diagnostic(figuresOf(crashed))
  assert.ok(crashed.faults.some((fault) => fault.startsWith('lost: ')))
  assert.ok(crashed.faults.some((fault) => fault.endsWith(' has no audit event')))
})
