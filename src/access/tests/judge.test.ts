import assert from 'node:assert/strict'
import { test } from 'node:test'
import { newUuid, toId } from '../../kernel/ids.ts'
import { resultOf } from './evaluate.ts'
import { type Broken, refusalOf, sentenceOf } from './judge.ts'
import type { AccessTestRow } from './load.ts'

const [id, target] = [newUuid(), newUuid()]
const broken = (test: Partial<AccessTestRow> = {}, outcome: Broken['is']['outcome'] = 'refused'): Broken => ({
  test: {
    ...{ id, created_at: '2030-01-01T00:00:00.000Z', description: null, metadata: null, address: '10.0.0.1' },
    ...{ type: 'api', target_id: null, path: null, expect: 'allowed' },
    ...test,
  },
  is: { outcome, reason: 'nothing allows it' },
})
const name = toId('act', id)

test('a test passes with the outcome that it expects, and is unknown where nothing can be decided', () => {
  assert.equal(resultOf(broken({ expect: 'allowed' }, 'allowed')), 'passed')
  assert.equal(resultOf(broken({ expect: 'refused' }, 'refused')), 'passed')
  assert.equal(resultOf(broken({ expect: 'allowed' }, 'refused')), 'failed')
  assert.equal(resultOf(broken({ expect: 'refused' }, 'allowed')), 'failed')
  assert.equal(resultOf(broken({ expect: 'refused' }, 'unknown')), 'unknown')
})

test('a broken test is named with its address, where it is about, and what would happen', () => {
  const because = 'nothing allows it'
  assert.equal(sentenceOf(broken()), `${name}: 10.0.0.1 must be allowed by the API, and would be refused: ${because}`)
  assert.equal(
    sentenceOf(broken({ description: 'the office', type: 'dashboard', expect: 'refused' }, 'allowed')),
    `${name} (the office): 10.0.0.1 must be refused by the dashboard, and would be allowed: ${because}`,
  )
  for (const [row, where] of [
    [{ type: 'edge', target_id: target }, `at ${toId('edgtcp', target)}`],
    [{ type: 'edge' }, 'at a TCP edge'],
    [{ type: 'route', path: '/a', target_id: target }, `at /a of ${toId('edghtsrt', target)}`],
    [{ type: 'route', path: '/a' }, 'at /a of a route'],
  ] as const)
    assert.equal(
      sentenceOf(broken(row, 'unknown')),
      `${name}: 10.0.0.1 must be allowed ${where}, and cannot be decided: ${because}`,
    )
})

test('a refusal names three broken tests, says how many more there are, and lists up to a hundred ids', () => {
  const one = refusalOf([broken()])
  assert.equal(one.code, 'ERR_ACCESS_TEST_FAILED')
  assert.equal(
    one.message,
    `This would fail an access test. ${sentenceOf(broken())}. Change the test if it is out of date; an admin can repeat the request with ignore_access_tests=true.`,
  )
  const many = Array.from({ length: 101 }, () => broken({ id: newUuid() }))
  const { message } = refusalOf(many)
  assert.match(message, /^This would fail 101 access tests\. /)
  assert.ok(message.includes(`${many.slice(0, 3).map(sentenceOf).join('; ')}; and 98 more. Change`))
  assert.ok(!message.includes(toId('act', many[3]?.test.id ?? id)))
  const details = refusalOf(many).details as { access_tests: string; failures: string }
  assert.equal(
    details.access_tests,
    many
      .slice(0, 100)
      .map(({ test }) => toId('act', test.id))
      .join(', '),
  )
  assert.equal(details.failures, many.slice(0, 20).map(sentenceOf).join('; '))
  assert.ok(!refusalOf(many.slice(0, 3)).message.includes('more'))
})
