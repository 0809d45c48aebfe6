import assert from 'node:assert/strict'
import { test } from 'node:test'
import { acknowledgingTooEarly, crashPostgres, crashProcesses, figuresOf } from './durability/crashes.ts'

test('kill -9 of a process in mid-request loses nothing acknowledged, and the audit tells of each change and no other', async (t) => {
  const crashed = await crashProcesses(t, 5)
  t.diagnostic(figuresOf(crashed))
  assert.deepEqual(crashed.faults, [])
  assert.ok(crashed.ledger.unanswered >= 5, 'no request was under way when the process was killed')
  assert.ok(crashed.ledger.acknowledged.size > 200)
})

test('kill -9 of PostgreSQL in mid-write loses nothing acknowledged, and the service goes on by itself', async (t) => {
  const crashed = await crashPostgres(t, { times: 3 })
  t.diagnostic(figuresOf(crashed))
  assert.deepEqual(crashed.faults, [])
  assert.ok(crashed.ledger.unanswered + crashed.ledger.refused >= 3, 'no request was under way when it was killed')
  assert.ok(crashed.ledger.acknowledged.size > 200)
})

test('the ledger is not blind: it reports loss when PostgreSQL acknowledges before it has written', async (t) => {
  const crashed = await crashPostgres(t, { times: 1, flags: acknowledgingTooEarly })
  t.diagnostic(figuresOf(crashed))
  assert.ok(crashed.faults.some((fault) => fault.startsWith('lost: ')))
  assert.ok(crashed.faults.some((fault) => fault.endsWith(' has no audit event')))
})
