// Backends of every kind in a state file: references by name, a round trip, and an order in which nothing is missing.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { startControlPlane } from '../harness/control_plane.ts'
import { cliFor } from './harness.ts'
import { contentsOf, countOf, stateFile } from './state_harness.ts'

const plane = await startControlPlane({ after })

const text = `
gatehouse: 1
backends:
  one: {address: one.internal:80, health_check: {type: http, path: /healthz, interval_seconds: 5}}
  two: {address: two.internal:80, health_check: {type: http}}
  three: {address: three.internal:80, health_check: {type: tcp}}
http_response_backends:
  maintenance: {status_code: 503, headers: {Retry-After: "60"}, body: "Back at noon\\n"}
  empty: {}
weighted_backends:
  both: {description: both, backends: {one: 10, two: 0}}
failover_backends:
  spare: {description: spare, backends: [one, two, maintenance]}
  plain: {backends: [three, one]}
tcp_edges:
  db: {hostports: [db.example:20100], backend: {backend: plain}}
https_edges:
  web:
    hostports: [groups.example:443]
    routes:
      - {match_type: path_prefix, match: /, backend: {backend: spare}}
      - {match_type: path_prefix, match: /a, backend: {backend: both}}
      - {match_type: exact_path, match: /b, backend: {backend: maintenance}}
      - {match_type: exact_path, match: /c, backend: {backend: three}}
`
const empty = text.replaceAll(/^( .*\n)+/gm, '').replaceAll(/^(\w+):$/gm, '$1: {}')

test('backends of every kind are applied, dumped into another account, changed and deleted', async () => {
  const [original, copy] = [await plane.newAccount(), await plane.newAccount()]
  const [mine, theirs] = [cliFor(plane, original), cliFor(plane, copy)]
  const file = await stateFile(text)
  await mine.ok(['state', 'apply', file])
  const again = await mine(['state', 'apply', file])
  assert.deepEqual([again.code, again.stderr], [0, 'Nothing to do.\n'])
  assert.equal((await mine(['state', 'diff', file])).code, 0)

  const dumped = await mine.ok(['state', 'dump', '--no-ids'])
  // Hosts belong to one account: the copy has others.
  await theirs.ok([
    'state',
    'sync',
    await stateFile(dumped.replaceAll(/(groups|db)\.example/g, 'copy-$1.example').replaceAll('20100', '20101')),
    '--yes',
  ])
  const named = (contents: Record<string, unknown[]>) =>
    JSON.stringify(contents).replaceAll('copy-', '').replaceAll('20101', '20100')
  assert.equal(named(await contentsOf(copy)), named(await contentsOf(original)))

  const [group] = (await original('GET', '/backends/weighted')).body.backends
  const changed = await stateFile(
    text
      .replace('{one: 10, two: 0}', '{two: 7, three: 1}')
      .replace('[one, two, maintenance]', '[two, maintenance]')
      .replace(/^ {2}plain.*\n/m, '')
      .replace('{backend: plain}', '{backend: one}'),
  )
  const { stdout } = await mine(['state', 'diff', changed])
  assert.match(
    stdout,
    /~ weighted backend both \(bkdwd_\w+\)\n {4}backends\.one: 10 → none\n {4}backends\.two: 0 → 7\n {4}backends\.three: 1/,
  )
  assert.match(
    stdout,
    /~ failover backend \S+ \(bkdfo_\w+\)\n {4}backends: \[one, two, maintenance\] → \[two, maintenance\]/,
  )
  await mine.ok(['state', 'sync', changed, '--yes'])
  assert.equal((await original('GET', group.uri)).status, 200, 'the group is the same one')
  assert.equal((await mine(['state', 'diff', changed])).code, 0)
  await mine.ok(['state', 'sync', await stateFile(empty), '--yes'])
  assert.equal(countOf(await contentsOf(original)), 0)
})

test('a name that is in two sections of backends is ambiguous, and an unknown one is named', async () => {
  const mine = cliFor(plane, await plane.newAccount())
  const twice = await mine([
    'state',
    'apply',
    await stateFile(text.replace('  both:', '  three:').replace('{backend: both}', '{backend: three}')),
  ])
  assert.match(twice.stderr, /refers to 'three', which is in backends and in weighted_backends; rename one of them/)
  const unknown = await mine(['state', 'apply', await stateFile(text.replace('{one: 10,', '{none: 10,'))])
  assert.match(unknown.stderr, /weighted_backends\.both\.backends: refers to 'none', which is not in backends/)
})

test('flags of groups take one entry at a time', async () => {
  const account = await plane.newAccount()
  const cli = cliFor(plane, account)
  const [a = '', b = ''] = await Promise.all(
    ['a', 'b'].map(async (host) =>
      (await cli.ok(['backends', 'static', 'create', '--address', `${host}:1`, '-o', 'ids'])).trim(),
    ),
  )
  const weighted = JSON.parse(
    await cli.ok(['backends', 'weighted', 'create', '--backend', `${a}=10`, '--backend', `${b}=0`, '-o', 'json']),
  )
  assert.deepEqual(weighted.backends, { [a]: 10, [b]: 0 })
  const failover = JSON.parse(await cli.ok(['backends', 'failover', 'create', '--backends', `${b},${a}`, '-o', 'json']))
  assert.deepEqual(failover.backends, [b, a])
  const wrong = await cli(['backends', 'weighted', 'update', weighted.id, '--backend', `${a}=many`])
  assert.match(wrong.stderr, /must be a number, not 'many'/)
  const checked = JSON.parse(
    await cli.ok([
      'backends',
      'static',
      'update',
      a,
      '--health-check.type',
      'http',
      '--health-check.path',
      '/up',
      '-o',
      'json',
    ]),
  )
  assert.equal(checked.health_check.path, '/up')
  const unchecked = JSON.parse(await cli.ok(['backends', 'static', 'update', a, '--no-health-check', '-o', 'json']))
  assert.equal(unchecked.health_check, null)
  const response = JSON.parse(
    await cli.ok([
      'backends',
      'http-response',
      'create',
      '--status-code',
      '503',
      '--header',
      'Retry-After=60',
      '-o',
      'json',
    ]),
  )
  assert.deepEqual([response.status_code, response.headers], [503, { 'Retry-After': '60' }])
})
