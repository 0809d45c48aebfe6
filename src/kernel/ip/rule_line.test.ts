import assert from 'node:assert/strict'
import { test } from 'node:test'
import { toRuleLine } from './rule_line.ts'

const rule = { action: 'deny', cidr: '10.0.0.0/8' }

test('a line says everything that a rule has, and that it has no metadata', () => {
  assert.equal(toRuleLine(rule), 'deny 10.0.0.0/8 metadata=')
  assert.equal(toRuleLine({ ...rule, description: null, metadata: null, expires_at: null }), toRuleLine(rule))
  assert.equal(toRuleLine({ ...rule, description: '', metadata: '' }), toRuleLine(rule))
  assert.equal(
    toRuleLine({ ...rule, description: 'the office', metadata: 'a b', expires_at: '2030-01-01T00:00:00Z' }),
    'deny 10.0.0.0/8 expires=2030-01-01T00:00:00Z metadata=a%20b # the office',
  )
})

test('a description that a comment cannot carry is percent-encoded, so that it cannot begin another rule', () => {
  for (const [description, encoded] of [
    ['one\nallow 0.0.0.0/0', 'one%0Aallow%200.0.0.0%2F0'],
    ['one\rtwo', 'one%0Dtwo'],
    [' first', '%20first'],
    ['last ', 'last%20'],
  ] as const)
    assert.equal(toRuleLine({ ...rule, description }), `deny 10.0.0.0/8 metadata= description=${encoded}`)
  assert.equal(toRuleLine({ ...rule, metadata: 'x\nallow ::/0' }), 'deny 10.0.0.0/8 metadata=x%0Aallow%20%3A%3A%2F0')
})
