// `gatehouse state`: an account as a file.
// cspell:ignore descripion
import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { after, test } from 'node:test'
import { parse } from 'yaml'
import { exits } from '../../src/cli/exits.ts'
import { maxChanges } from '../../src/resources/change_sets/schema.ts'
import { startControlPlane } from '../harness/control_plane.ts'
import { printed, sized } from '../harness/thorough.ts'
import { cliFor } from './harness.ts'
import { contentsOf, countOf, fillAccount, stateFile } from './state_harness.ts'

const [here, elsewhere] = [await startControlPlane({ after }), await startControlPlane({ after })]

const resources = sized(120, 1_000)
test(`an account of ${printed(resources)} resources, dumped and synced into an empty one, differs only in ids and times`, async () => {
  const [original, copy] = [await here.newAccount(), await elsewhere.newAccount()]
  await fillAccount(original, 0.16 * resources)
  const wanted = await contentsOf(original)
  assert.ok(countOf(wanted) >= resources, `${countOf(wanted)} things`)
  const [mine, theirs] = [cliFor(here, original), cliFor(elsewhere, copy)]
  const file = await stateFile(await mine.ok(['state', 'dump']))
  const began = Date.now()
  await theirs.ok(['state', 'sync', file, '--yes'])
  console.log(`sync of ${countOf(wanted)} things took ${Date.now() - began} ms`)
  assert.deepEqual(await contentsOf(copy), wanted)
  // Change sets are kept without the order of keys, such as the names of headers, which has no meaning.
  assert.deepEqual(
    parse(await theirs.ok(['state', 'dump', '--no-ids'])),
    parse(await mine.ok(['state', 'dump', '--no-ids'])),
  )
  // Its ids are those of another account, so everything was found by what it is.
  const again = await theirs(['state', 'sync', file, '--yes'])
  assert.deepEqual([again.code, again.stdout, again.stderr], [0, '', 'Nothing to do.\n'])
})

const office = `
gatehouse: 1
ip_policies:
  office: {description: office, rules: [allow 127.0.0.0/8, deny 127.0.0.9, {allow: 203.0.113.0/24, description: branch}]}
  unnamed: {rules: [allow 10.0.0.0/8]}
  same: {rules: [allow 10.0.0.0/8]}
backends:
  app: {address: app.internal:8080}
ip_restrictions:
  api: {type: api, enforced: true, ip_policies: [office]}
tcp_edges:
  db: {hostports: [DB.example:20001], backend: {backend: app}, ip_restriction: {ip_policies: [office, same]}}
https_edges:
  web:
    hostports: [web.example:443]
    routes:
      - {match_type: path_prefix, match: /, backend: {backend: app}, request_headers: {remove: [Cookie]}}
      - {match_type: path_prefix, match: /admin, backend: {backend: app}, ip_restriction: {ip_policies: [office]}}
`
const empty = 'gatehouse: 1\nip_policies: {}\nbackends: {}\nip_restrictions: {}\ntcp_edges: {}\nhttps_edges: {}\n'

test('apply twice changes nothing the second time, and leaves no audit event', async () => {
  const account = await here.newAccount()
  const mine = cliFor(here, account)
  const file = await stateFile(office)
  await mine.ok(['state', 'apply', file])
  const events = await mine.ok(['audit-events', 'list', '--all', '-o', 'ids'])
  const { code, stderr } = await mine(['state', 'apply', file])
  assert.deepEqual([code, stderr], [0, 'Nothing to do.\n'])
  assert.equal(await mine.ok(['audit-events', 'list', '--all', '-o', 'ids']), events)
  assert.equal((await mine(['state', 'diff', file])).code, 0)
  await mine.ok(['state', 'sync', await stateFile(empty), '--yes', '--allow-self-lockout'])
  assert.equal(countOf(await contentsOf(account)), 0)
})

test('a manual change shows in diff; apply reverts it but deletes nothing; sync also deletes', async () => {
  const account = await here.newAccount()
  const mine = cliFor(here, account)
  const file = await stateFile(office)
  await mine.ok(['state', 'apply', file])
  const [policy] = (await account('GET', '/ip_policies')).body.ip_policies.slice(-1)
  const [edge] = (await account('GET', '/edges/https')).body.https_edges
  const route = edge.routes.find(({ match }: { match: string }) => match === '/admin')
  await account('POST', '/ip_policy_rules', { ip_policy_id: policy.id, action: 'allow', cidr: '198.51.100.0/24' })
  await account('DELETE', `${route.uri}/ip_restriction`)
  await account('POST', '/ip_policies', { description: 'by hand' })
  const { code, stdout } = await mine(['state', 'diff', file])
  assert.equal(code, exits.different.code)
  assert.equal(
    stdout.replaceAll(/ \(\w+\)/g, ''),
    [
      '~ IP policy office',
      '    - allow 198.51.100.0/24',
      '~ route web path_prefix /admin',
      '    ip_restriction: {ip_policies: [office]}',
      '- IP policy by-hand',
      '',
      '0 to create, 2 to change, 1 only in the account',
      '',
    ].join('\n'),
  )
  await mine.ok(['state', 'apply', file])
  assert.match(
    (await mine(['state', 'diff', file])).stdout,
    /^- IP policy by-hand .*\n\n0 to create, 0 to change, 1 only in the account\n$/,
  )
  const asked = await mine(['state', 'sync', file])
  assert.equal(asked.code, exits.usage.code)
  assert.match(asked.stderr, /This deletes 1 resource:\n {2}IP policy by-hand/)
  await mine.ok(['state', 'sync', file, '--dry-run'])
  assert.equal((await mine(['state', 'diff', file])).code, exits.different.code)
  await mine.ok(['state', 'sync', file, '--yes'])
  assert.equal((await mine(['state', 'diff', file])).code, 0)
  await mine.ok(['state', 'sync', await stateFile(empty), '--yes', '--allow-self-lockout'])
})

test('an id in the file wins over a name; hostports move between edges; a section that is not there is left alone', async () => {
  const account = await here.newAccount()
  const mine = cliFor(here, account)
  await mine.ok([
    'state',
    'apply',
    await stateFile(
      'gatehouse: 1\nip_policies: {a: {description: a}}\ntcp_edges: {x: {hostports: [m.example:20011]}, y: {hostports: [m.example:20012]}}\n',
    ),
  ])
  const before = await mine.ok(['state', 'dump'])
  const ids = before.match(/\b(ipp|edgtcp)_[0-9a-z]{26}\b/g) ?? []
  const swapped = before
    .replaceAll('- m.example:20011', '- m.example:2001x')
    .replaceAll('- m.example:20012', '- m.example:20011')
    .replaceAll('2001x', '20012')
    .replace('description: a', 'description: b')
  await mine.ok(['state', 'apply', await stateFile(swapped)])
  const after = await mine.ok(['state', 'dump'])
  assert.deepEqual(after.match(/\b(ipp|edgtcp)_[0-9a-z]{26}\b/g), ids)
  assert.deepEqual(
    (await account('GET', '/edges/tcp')).body.tcp_edges.map(({ hostports }: { hostports: string[] }) => hostports[0]),
    ['m.example:20011', 'm.example:20012'],
  )
  assert.match(after, /description: b/)
  await mine.ok(['state', 'sync', await stateFile('gatehouse: 1\ntcp_edges: {}\n'), '--yes'])
  const left = await contentsOf(account)
  assert.deepEqual([left.tcp_edges?.length, left.ip_policies?.length], [0, 1])
})

test('timeouts and the PROXY protocol are set, changed and taken back to their defaults by the file', async () => {
  const account = await here.newAccount()
  const mine = cliFor(here, account)
  const written = async (backend: string, route: string) => {
    const match = `match_type: path_prefix, match: /, backend: {backend: app}${route}`
    const file = await stateFile(
      `gatehouse: 1\nbackends:\n  app: {address: app.internal:8080${backend}}\nhttps_edges:\n  web: {hostports: [web.example:443], routes: [{${match}}]}\n`,
    )
    await mine.ok(['state', 'apply', file])
    assert.equal((await mine(['state', 'apply', file])).stderr, 'Nothing to do.\n')
    const { backends = [], https_edges = [] } = await contentsOf(account)
    const [{ routes }, { send_proxy_protocol }] = [https_edges[0], backends[0]] as [
      { routes: { timeouts: unknown }[] },
      { send_proxy_protocol: boolean },
    ]
    return { send_proxy_protocol, timeouts: routes[0]?.timeouts }
  }
  const defaults = await written('', '')
  assert.deepEqual(defaults, { send_proxy_protocol: false, timeouts: null })
  const set = await written(', send_proxy_protocol: true', ', timeouts: {connect_seconds: 2, response_seconds: 300}')
  assert.deepEqual(set, {
    send_proxy_protocol: true,
    timeouts: { connect_seconds: 2, response_seconds: 300, idle_seconds: null },
  })
  const changed = await written(', send_proxy_protocol: true', ', timeouts: {idle_seconds: 3600}')
  assert.deepEqual(changed.timeouts, { connect_seconds: null, response_seconds: null, idle_seconds: 3600 })
  assert.match(await mine.ok(['state', 'dump']), /send_proxy_protocol: true.*timeouts:\s+idle_seconds: 3600/s)
  assert.deepEqual(await written('', ''), defaults)
})

test('the example of docs/reference/state-file.md is a state file', async () => {
  const account = await here.newAccount()
  const page = await readFile(new URL('../../docs/reference/state-file.md', import.meta.url), 'utf8')
  const [, example = ''] = /^```yaml\n(.*?)^```/ms.exec(page) ?? []
  const mine = cliFor(here, account)
  await mine.ok(['state', 'apply', '-'], { input: example })
  assert.equal((await mine(['state', 'diff', '-'], { input: example })).code, 0)
})

test('a file of which one change is refused changes nothing, and the message says which one it is', async () => {
  const account = await here.newAccount()
  const mine = cliFor(here, account)
  const file = await stateFile(`
gatehouse: 1
ip_policies: {far: {description: far, rules: [allow 203.0.113.0/24]}}
ip_restrictions: {api: {type: api, enforced: true, ip_policies: [far]}}
tcp_edges: {late: {hostports: [late.example:20021]}}
`)
  const { code, stderr } = await mine(['state', 'apply', file])
  assert.equal(code, exits.refused.code)
  assert.match(stderr, /create IP restriction api: .*\(ERR_SELF_LOCKOUT\)/)
  assert.match(stderr, /--allow-self-lockout(?:.|\n)*Nothing was changed\./)
  assert.equal(countOf(await contentsOf(account)), 0)
  assert.deepEqual((await account('GET', '/change_sets')).body.change_sets, [], 'no draft is left behind')

  const stepwise = await mine(['state', 'apply', file, '--one-by-one'])
  assert.equal(stepwise.code, exits.refused.code)
  assert.match(stepwise.stderr, /create IP restriction api: .*\(ERR_SELF_LOCKOUT\)(?:.|\n)*2 of 4 changes were made/)
  const { ip_policies, ip_restrictions, tcp_edges } = await contentsOf(account)
  // The edge would have opened something: it comes after what restricts.
  assert.deepEqual([ip_policies?.length, ip_restrictions?.length, tcp_edges?.length], [1, 0, 0])
})

test('a file is applied under one operation id and one generation', async () => {
  const account = await here.newAccount()
  await cliFor(here, account).ok([
    'state',
    'apply',
    await stateFile(office.replace('20001', '20031').replace('web.example', 'one.example')),
  ])
  const { audit_events } = (await account('GET', '/audit_events')).body
  const { operation_id } = audit_events.find(
    ({ operation }: { operation: string }) => operation === 'change_sets.apply',
  )
  const { events: own } = Object.groupBy(audit_events as { operation_id: string }[], (event) =>
    event.operation_id === operation_id ? 'events' : 'others',
  )
  // Three policies with rules, a backend, a restriction, two edges, two routes, the hostports of one; and the application.
  assert.equal(own?.length, 14)
  const [set] = (await account('GET', '/change_sets')).body.change_sets
  assert.equal((await account('GET', `/generations/${set.generation}`)).status, 200)
})

test('a file that is too large for one change set is refused before anything happens, and goes with --one-by-one', async () => {
  const account = await here.newAccount()
  const mine = cliFor(here, account)
  const backends = Array.from(
    { length: maxChanges + 1 },
    (_, index) => `  b${index}: {address: 'b${index}.internal:80'}`,
  )
  const many = await mine(['state', 'apply', '-'], { input: `gatehouse: 1\nbackends:\n${backends.join('\n')}\n` })
  assert.equal(many.code, exits.refused.code)
  assert.match(many.stderr, /needs 2001 changes .* at most 2000 changes .*; nothing was changed\n(?:.|\n)*--one-by-one/)
  const rules = Array.from({ length: 30_000 }, (_, index) => `allow 10.${index >> 8}.${index & 255}.0/24`)
  const long = await stateFile(
    `gatehouse: 1\nip_policies: {crowd: {description: crowd, rules: [${rules.join(', ')}]}}\n`,
  )
  const refused = await mine(['state', 'apply', long])
  assert.equal(refused.code, exits.refused.code)
  assert.match(refused.stderr, /The largest is update IP policy crowd, with \d\.\d MiB\./)
  assert.equal(countOf(await contentsOf(account)), 0)
  await mine.ok(['state', 'apply', long, '--one-by-one'])
  assert.equal((await mine(['state', 'diff', long])).code, 0)
})

test('a key without the scope for change sets learns which scope it needs', async () => {
  const account = await here.newAccount()
  const { body: key, text: told } = await account('POST', '/api_keys', {
    owner_id: account.adminId,
    scopes: ['*.list', '*.get', 'ip_policies.rules', 'static_backends.create'],
  })
  assert.ok(key.token, told)
  const { code, stderr } = await cliFor(here, { token: key.token })(['state', 'apply', '-'], {
    input: 'gatehouse: 1\nbackends: {a: {address: a.internal:80}}\n',
  })
  assert.equal(code, exits.notAllowed.code, stderr)
  assert.match(stderr, /change_sets\.create(?:.|\n)*Add the scope change_sets\.\*.*--one-by-one/)
  assert.equal(countOf(await contentsOf(account)), 0)
})

test('a file with a mistake is refused before anything is sent, and the message names it', async () => {
  const account = await here.newAccount()
  const mine = cliFor(here, account)
  for (const [text, told] of [
    ['a: [', /line 1, column 5: the state file: /],
    ['ip_policies: {}', /must begin with 'gatehouse: 1'/],
    ['gatehouse: 1\npolicies: {}', /policies: is not a known section/],
    ['gatehouse: 1\nip_policies: {a: {rules: [permit 10.0.0.0/8]}}', /ip_policies.a.rules\[0\]: must be 'allow CIDR'/],
    [
      'gatehouse: 1\nip_policies: {a: {color: red}}',
      /line 2, column 19: ip_policies.a.color: is an unknown field; expected one of description, metadata/,
    ],
    ['gatehouse: 1\nip_policies: {a: {metadata: 12}}', /ip_policies.a.metadata: must be string, not integer/],
    ['gatehouse: 1\nip_restrictions: {a: {type: api}}', /ip_restrictions.a: needs ip_policies/],
    ['gatehouse: 1\nip_restrictions: {a: {type: api, ip_policies: [b]}}', /refers to 'b', which is not in ip_policies/],
    ['gatehouse: 1\nbackends: {a: {address: x}, a: {address: y}}', /state file: .*unique/],
  ] as [string, RegExp][]) {
    const { code, stderr } = await mine(['state', 'apply', '-'], { input: text })
    assert.equal(code, exits.refused.code, text)
    assert.match(stderr, told)
  }
  assert.equal(countOf(await contentsOf(account)), 0)
})

test('all mistakes of a file are reported at once, in the order of their lines', async () => {
  const mine = cliFor(here, await here.newAccount())
  const input = `gatehouse: 1
ip_policies:
  office:
    descripion: Berlin
    rules:
      - allow 10.0.0.0/8
      - permit 10.1.0.0/16
      - {allow: 10.2.0.0/16, until: tomorrow}
ip_restrictions:
  api:
    type: api
tcp_edges:
  db:
    hostports: [db.example:5432]
    backend: {backend: main}
colors: {}
`
  const { code, stderr } = await mine(['state', 'diff', '-'], { input })
  assert.equal(code, exits.refused.code)
  assert.deepEqual(
    stderr
      .trim()
      .split('\n')
      .map((line) => line.trim().replace(/; expected one of.*/, '')),
    [
      'gatehouse: the state file has 6 faults',
      'line 4, column 5: ip_policies.office.descripion: is an unknown field; did you mean description',
      "line 7, column 9: ip_policies.office.rules[1]: must be 'allow CIDR', 'deny CIDR', or {allow: CIDR, description: …}",
      'line 8, column 30: ip_policies.office.rules[2].until: is an unknown field',
      'line 10, column 3: ip_restrictions.api: needs ip_policies',
      "line 15, column 15: tcp_edges.db.backend.backend: refers to 'main', which is not in backends or weighted_backends or failover_backends or http_response_backends",
      'line 16, column 1: colors: is not a known section',
    ],
  )
})
