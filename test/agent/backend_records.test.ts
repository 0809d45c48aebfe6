import assert from 'node:assert/strict'
import { test } from 'node:test'
import { recordFault } from '../../src/distribution/validate.ts'
import { newId } from '../../src/kernel/ids.ts'

const account = newId('ac')
const httpCheck = { type: 'http', path: '/healthz', interval_seconds: 10, healthy_after: 2, unhealthy_after: 3 }
const { path: _, ...tcpCheck } = { ...httpCheck, type: 'tcp' }
const many = <T>(count: number, item: T): T[] => Array.from({ length: count }, () => item)
const members = (count: number) => Array.from({ length: count }, () => newId('bkdst'))
const shares = (count: number, weight: number) => members(count).map((id) => [id, weight])
const [twice] = members(1)
const record = (key: string, value: object) => ({ key, generation: 1, value })

const tcp = record(`tcp.${newId('edgtcp')}`, { account, hostports: ['a.example:1'], backend: null, policies: null })
const route = record(`route.${newId('edghtsrt')}`, {
  account,
  edge: newId('edghts'),
  match_type: 'path_prefix',
  match: '/',
  backend: null,
  policies: null,
  headers: null,
})
const checked = record(`backend.${newId('bkdst')}`, { host: 'a', port: 1, tls: false })
const weighted = record(`weighted.${newId('bkdwd')}`, { account, backends: shares(1, 1) })
const failover = record(`failover.${newId('bkdfo')}`, { account, backends: members(1) })
const response = record(`response.${newId('bkdhr')}`, { status: 200, headers: [], body: '' })

test('a node accepts exactly the backends that the API accepts', () => {
  for (const [of, field, most, more] of [
    [checked, 'health_check', httpCheck, { ...httpCheck, path: undefined }],
    [checked, 'health_check', tcpCheck, { ...tcpCheck, path: '/' }],
    [checked, 'health_check', { ...httpCheck, path: `/${'a'.repeat(255)}` }, { ...httpCheck, path: '/'.repeat(257) }],
    [checked, 'health_check', { ...httpCheck, path: '/a?b=%20' }, { ...httpCheck, path: '/a;b' }],
    [checked, 'health_check', { ...tcpCheck, interval_seconds: 300 }, { ...tcpCheck, interval_seconds: 301 }],
    [checked, 'health_check', { ...tcpCheck, healthy_after: 10 }, { ...tcpCheck, healthy_after: 0 }],
    [checked, 'health_check', { ...tcpCheck, unhealthy_after: 1 }, { ...tcpCheck, unhealthy_after: 11 }],
    [tcp, 'backend', newId('bkdwd'), newId('bkdhr')],
    [tcp, 'backend', newId('bkdfo'), newId('ipp')],
    [route, 'backend', newId('bkdhr'), newId('ipp')],
    [weighted, 'backends', shares(50, 10_000), shares(51, 1)],
    [weighted, 'backends', shares(1, 0), shares(1, 10_001)],
    [weighted, 'backends', shares(1, 1), []],
    [weighted, 'backends', [[twice, 1]], many(2, [twice, 1])],
    [weighted, 'backends', [[twice, 1]], [[newId('bkdwd'), 1]]],
    [failover, 'backends', members(49), members(51)],
    [failover, 'backends', [twice], [twice, twice]],
    [failover, 'backends', [twice], [newId('bkdfo')]],
    [failover, 'response', newId('bkdhr'), newId('bkdst')],
    [response, 'status', 599, 600],
    [response, 'headers', [['a', 'b']], [['content-length', '1']]],
    [response, 'headers', [['a', 'b']], many(2, ['a', 'b'])],
    [response, 'headers', [['a', 'b']], [['x_request_id', '1']]],
    [response, 'body', 'é'.repeat(4096), 'é'.repeat(4097)],
  ] as const) {
    const withField = (value: unknown) => ({ ...of, value: { ...of.value, [field]: value } })
    assert.equal(recordFault(withField(most)), undefined, `${field} ${JSON.stringify(most)}`)
    assert.equal(recordFault(withField(more)), `has an invalid ${field}`, JSON.stringify(more))
  }
})

test('a failover group needs a server or a response, a status without a body has none', () => {
  const group = (backends: string[], other: object) =>
    recordFault({ ...failover, value: { account, backends, ...other } })
  assert.equal(group([], { response: newId('bkdhr') }), undefined)
  assert.equal(group([], {}), 'has no backends, or too many')
  assert.equal(group(members(50), { response: newId('bkdhr') }), 'has no backends, or too many')
  const empty = { status: 204, headers: [] }
  assert.equal(recordFault({ ...response, value: { ...empty, body: '' } }), undefined)
  assert.equal(recordFault({ ...response, value: { ...empty, body: 'text' } }), 'has an invalid body')
})
