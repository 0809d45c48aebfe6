import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { newId } from '../kernel/ids.ts'
import { type EdgeRequest, isEdgeRequest, requestLimits } from './requests.ts'

const request: EdgeRequest = {
  id: '0198c0de-0000-7000-8000-000000000000',
  at: '2026-01-02T03:04:05.678Z',
  node: 'edge-1',
  account: newId('ac'),
  edge: newId('edghts'),
  route: newId('edghtsrt'),
  source: '2001:db8::1',
  protocol: 'h2',
  method: 'GET',
  host: 'shop.example',
  path: '/a',
  status: 200,
  durationMs: 3,
  bytesIn: 100,
  bytesOut: 200,
  upstream: '[2001:db8::2]:443',
  outcome: 'allowed',
  reason: null,
  restriction: null,
  policy: null,
  rule: null,
  generation: 7,
  trace: null,
}

describe('what nodes say about requests', () => {
  test('is taken when every field is in bounds', () => {
    assert.ok(isEdgeRequest(request))
    assert.ok(isEdgeRequest({ ...request, outcome: 'refused', reason: 'policy', policy: newId('ipp') }))
    assert.ok(isEdgeRequest({ ...request, edge: newId('edgtcp'), route: null, protocol: 'tcp', method: null }))
  })

  const bad: Record<string, unknown>[] = [
    { id: '0198c0de-0000-4000-8000-000000000000' },
    { at: '2026-02-30T03:04:05.678Z' },
    { at: '2026-01-02T03:04:05Z' },
    { node: 'edge.1' },
    { account: newId('usr') },
    { edge: newId('edghtsrt') },
    { source: '2001:DB8::1' },
    { source: '::ffff:192.0.2.1' },
    { protocol: 'gopher' },
    { method: '' },
    { host: 'a b' },
    { path: '/\n' },
    { path: '/\u00e9' },
    { path: `/${'a'.repeat(requestLimits.path)}` },
    { status: 42 },
    { durationMs: -1 },
    { bytesIn: 1.5 },
    { bytesOut: 2 ** 60 },
    { upstream: 'localhost:80' },
    { outcome: 'passed' },
    { outcome: 'refused', reason: 'because' },
    { outcome: 'allowed', reason: 'policy' },
    { outcome: 'limited', reason: 'policy' },
    { generation: null },
    { trace: 'x' },
    { more: 1 },
    { rule: undefined },
  ]
  for (const change of bad) {
    test(`is not taken with ${JSON.stringify(change).slice(0, 60)}`, () => {
      assert.ok(!isEdgeRequest({ ...request, ...change }))
    })
  }
  test('is not taken when it is nothing of the kind', () => {
    for (const sent of [null, undefined, 'x', 1, [], {}]) assert.ok(!isEdgeRequest(sent))
  })
})
