import assert from 'node:assert/strict'
import { test } from 'node:test'
import { canonicalPath } from '../../../kernel/edge/route_keys.ts'
import { newId } from '../../../kernel/ids.ts'
import { Claims } from './claims.ts'
import { noSettings, UnusableRecord } from './codec.ts'
import { difference, type Entry, entriesOf } from './entries.ts'

const [edge, account, backend, policy] = [newId('edgtcp'), newId('ac'), newId('bkdst'), newId('ipp')]
const tcp = { account, backend, policies: [policy] }

test('a TCP edge has one entry per hostport, keyed by what HAProxy knows about the connection', () => {
  const value = `${edge}|${account}|${backend}|-|-|----|-|${noSettings}|-|-|-|${policy}`
  const hostports = ['10.0.0.1:5432', '[2001:DB8::1]:5432', 'Db.Example.com:5432', '[::1.2.3.4]:1']
  assert.deepEqual(
    entriesOf(`tcp.${edge}`, { ...tcp, hostports }),
    ['10.0.0.1:5432', '2001:db8::1:5432', '*:5432', '::1.2.3.4:1'].map((key) => ({ map: 'tcp', key, value })),
  )
  assert.deepEqual(entriesOf(`tcp.${edge}`, null), [])
})

test('no module, no policy and no backend are three different things', () => {
  const value = (changes: object) =>
    entriesOf(`tcp.${edge}`, { ...tcp, hostports: ['10.0.0.1:1'], ...changes })[0]?.value
  assert.equal(value({ policies: null }), `${edge}|${account}|${backend}|-|-|----|-|${noSettings}|-|-|-|open`)
  assert.equal(value({ policies: [] }), `${edge}|${account}|${backend}|-|-|----|-|${noSettings}|-|-|-|`)
  assert.equal(
    value({ backend: null }),
    `${edge}|${account}|${'-'.repeat(32)}|-|-|----|-|${noSettings}|-|-|-|${policy}`,
  )
})

test('a restricted route guards the other spellings of its path, unless it ignores them', () => {
  const [https, route] = [newId('edghts'), newId('edghtsrt')]
  const entries = (more: object) =>
    entriesOf(`route.${route}`, {
      ...{
        account,
        edge: https,
        match_type: 'path_prefix',
        match: '/Admin/',
        backend,
        policies: [policy],
        headers: null,
      },
      ...more,
    }).map(({ map, key, value }) => [map, key.replace(https, ''), value.slice(-policy.length)])
  const own = ['route', '/Admin/', policy]
  const id = route.slice(-policy.length)
  assert.deepEqual(entries({}), [['guard', '/admin/', policy], ['guarded', '', id], ['odd_guard', '', id], own])
  assert.deepEqual(entries({ path_variants: 'ignore' }), [own])
  assert.equal(entries({ policies: null }).length, 1)
  const guard = (match: string) => entries({ match, match_type: 'exact_path' })[0]?.[1]
  assert.deepEqual(
    [guard('/'), guard('/x'), guard('/X/'), guard('/%c3%84/%2E%2e/%D0%90')],
    ['/|', '/x/|', '/x/|', '/%d0%b0/|'],
  )
  // Where the route is found by the same text as its guard, no other spelling of a path leads to it alone.
  const isOdd = (match: string, match_type: string) =>
    entries({ match, match_type }).some(([map]) => map === 'odd_guard')
  assert.deepEqual(
    ['/x', '/x/y', '/x-1/y_2'].flatMap((match) => [isOdd(match, 'exact_path'), isOdd(match, 'path_prefix')]),
    Array(6).fill(false),
  )
  assert.deepEqual(
    ['/', '/x/'].map((match) => isOdd(match, 'path_prefix')),
    [false, false],
  )
  assert.deepEqual(
    ['/x/', '/X', '/%d0%90'].map((match) => isOdd(match, 'exact_path')),
    [true, true, true],
  )
})

test('a backend entry contains how to reach it, and nothing else', () => {
  const backend = newId('bkdst')
  const value = (more: object) =>
    entriesOf(`backend.${backend}`, { address: '192.0.2.1', port: 1, tls: false, host: 'a.test', ...more })[0]?.value
  assert.equal(value({}), 'plain|192.0.2.1|1|-')
  assert.equal(value({ protocol: 'http2' }), 'plain-h2|192.0.2.1|1|-')
  assert.equal(value({ protocol: 'http2', tls: true }), 'tls-h2|192.0.2.1|1|a.test')
  for (const protocol of ['http1', 'h2', '', null, 2]) assert.throws(() => value({ protocol }), /no known protocol/)
})

test('a response entry is text without anything that a map line, a command or a header could end with', () => {
  const response = newId('bkdhr')
  const value = (more: object) =>
    entriesOf(`response.${response}`, { status: 503, headers: [], body: '', ...more })[0]?.value
  assert.equal(value({}), '503||')
  assert.equal(value({ body: 'hi\n' }), '503|Content-Type=text/plain%3b%20charset%3dutf-8|aGkK')
  assert.equal(
    value({ body: '{}', headers: [['content-type', 'a/b; |&=']] }),
    '503|content-type=a/b%3b%20%7c%26%3d|e30=',
  )
  assert.equal(value({ status: 204 }), '204||')
  const faults: [object, RegExp][] = [
    ...[199, 600, 200.5, '200', null].map((status): [object, RegExp] => [{ status }, /status_code/]),
    ...['Content-Length', 'transfer_encoding', 'Connection', 'Upgrade', 'X-Request-Id', 'x_request_id'].map(
      (name): [object, RegExp] => [{ headers: [[name, '1']] }, /only the edge itself/],
    ),
    [{ headers: [['a', 'b\r\nc: d']] }, /printable/],
    [{ headers: [['a\r\nb', 'c']] }, /token/],
    [
      {
        headers: [
          ['a', '1'],
          ['A', '2'],
        ],
      },
      /the same header/,
    ],
    [
      {
        headers: [
          ['a', '1'],
          ['a', '2'],
        ],
      },
      /same header/,
    ],
    [{ body: `${'漢'.repeat(2_730)}123` }, /8192 bytes/],
    [{ status: 204, body: 'none' }, /must be empty/],
    [
      {
        headers: [
          ['a', 'x'.repeat(4_000)],
          ['b', 'x'.repeat(4_000)],
        ],
      },
      /must be smaller/,
    ],
  ]
  for (const [more, reason] of faults) assert.throws(() => value(more), reason, JSON.stringify(more))
})

test('a record without the shape of its kind is refused', () => {
  const shapes: [string, unknown][] = [
    ['tcp.x', { ...tcp, hostports: [] }],
    [`tcp.${edge}`, {}],
    [`tcp.${edge}`, 'text'],
    [`tcp.${edge}`, { ...tcp, hostports: ['10.0.0.1:0'] }],
    [`tcp.${edge}`, { ...tcp, policies: ['open'], hostports: ['10.0.0.1:1'] }],
    [`tcp.${edge}`, { ...tcp, backend: newId('bkdhr'), hostports: ['10.0.0.1:1'] }],
    [`response.${newId('bkdhr')}`, { status: 200 }],
    [`response.${backend}`, { status: 200, headers: [], body: '' }],
    [`policy.${policy}`, '../../etc/passwd'],
    [`backend.${backend}`, { address: '10.0.0.01', port: 1, tls: false, host: 'x.test' }],
    [`backend.${backend}`, { address: '10.0.0.1', port: 1, tls: true, host: 'a|b' }],
    [`https.${newId('edghts')}`, { hostports: ['10.0.0.1:443'] }],
    ...['/a%2fb', '/a%5Cb', '/a\\b'].map((match): [string, unknown] => [
      `route.${newId('edghtsrt')}`,
      { ...tcp, edge: newId('edghts'), match_type: 'exact_path', match, headers: null },
    ]),
    ['constructor.x', {}],
    ['nothing', {}],
  ]
  for (const [key, value] of shapes)
    assert.throws(() => entriesOf(key, value), UnusableRecord, `${key} ${JSON.stringify(value)}`)
})

test('paths that an upstream could treat as equal have one spelling', () => {
  for (const path of ['/admin', '/%61dmin', '/x/../admin', '//admin', '/./admin', '/x/%2e%2E/admin', '/../admin'])
    assert.equal(canonicalPath(path), '/admin', path)
  assert.equal(canonicalPath('/a/..'), '/')
  assert.equal(canonicalPath('/a/b/.'), '/a/b/')
  assert.equal(canonicalPath('/é b%2f%zz?'), '/%C3%A9%20b%2F%25zz%3F')
})

test('a difference lists removals and additions; the first claim on a key keeps it', () => {
  const [a, b]: [Entry, Entry] = [
    { map: 'tcp', key: '*:1', value: 'edge_a|x' },
    { map: 'tcp', key: '*:1', value: 'edge_b|x' },
  ]
  assert.deepEqual(difference([a], [a, b]), { set: [b], del: [] })
  assert.deepEqual(difference([a], [b]), { set: [b], del: [a] })
  const claims = new Claims()
  assert.deepEqual(claims.change({ set: [b], del: [] }), [{ kind: 'add', ...b }])
  assert.deepEqual(claims.change({ set: [a], del: [] }), [{ kind: 'set', ...a }])
  assert.deepEqual(claims.change({ set: [a], del: [] }), [], 'again')
  assert.deepEqual(claims.change({ set: [], del: [b] }), [])
  assert.deepEqual(claims.change({ set: [b], del: [a] }), [{ kind: 'set', ...b }])
  assert.deepEqual(claims.change({ set: [], del: [a, b] }), [{ kind: 'del', map: 'tcp', key: '*:1' }])
})
