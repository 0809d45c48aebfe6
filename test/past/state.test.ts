// `state dump --at` beside what `state dump` wrote at that time, and `explain`.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { cliFor } from '../cli/harness.ts'
import { startControlPlane } from '../harness/control_plane.ts'
import { make, newHttpsEdge, newRoute, newTcpEdge } from '../harness/fixtures.ts'
import { policyWith, putRules, restrict } from '../harness/ip.ts'
import { pause } from '../harness/poll.ts'
import { newUser } from '../harness/principals.ts'
import { sized } from '../harness/thorough.ts'
import { act, seenBy } from '../reverts/people.ts'

const plane = await startControlPlane({ after })
/** Its first line names the time. */
const bodyOf = (text: string) => text.slice(text.indexOf('\n'))

const moments = sized(6, 60)
test(`at ${moments} earlier times, the dump is what it was then, or the command names the earliest time`, async () => {
  const as = await plane.newAccount()
  const cli = cliFor(plane, as)
  const seen: { at: string; dump: string }[] = []
  for (let moment = 0; moment < moments; moment++) {
    for (let count = 0; count < 4; count++) await act(as, as, await seenBy(as))
    await pause(3)
    const { rows } = await plane.db.query({ text: 'select clock_timestamp() as now' })
    const at = new Date(rows[0]?.now as string).toISOString()
    seen.push({ at, dump: await cli.ok(['state', 'dump']) })
    await pause(3)
  }
  const counts = { exact: 0, notRecorded: 0 }
  for (const { at, dump } of seen.toReversed()) {
    const { code, stdout, stderr } = await cli(['state', 'dump', '--at', at])
    if (code === 3) {
      const [, earliest = ''] = /The earliest time is (\S+)\.$/m.exec(stderr) ?? assert.fail(stderr)
      assert.ok(earliest > at, stderr)
      counts.notRecorded++
    } else {
      assert.equal(code, 0, stderr)
      assert.equal(bodyOf(stdout), bodyOf(dump), at)
      counts.exact++
    }
  }
  console.log(counts)
  assert.ok(counts.exact > 0)
})

test('deleted edges, routes, modules, backends and rules are back in the dump of an earlier time', async () => {
  const as = await plane.newAccount()
  const cli = cliFor(plane, as)
  const policy = await policyWith(as)
  const rule = await make(as, '/ip_policy_rules', {
    ip_policy_id: policy,
    action: 'deny',
    cidr: '10.0.0.0/8',
    description: 'old',
  })
  const backend = await make(as, '/backends/static', { address: 'app.internal:80' })
  const edge = await newHttpsEdge(as, { description: 'shop' })
  const module = { ip_restriction: { ip_policy_ids: [policy] } }
  const route = await newRoute(as, { ...module, backend: { backend_id: backend.id } }, edge)
  await newTcpEdge(as, { ...module, rate_limit: { connections: 5, per_seconds: 10 } })
  await restrict(as, { type: 'agent', ip_policy_ids: [policy] })
  await pause(5)
  const at = new Date().toISOString()
  const dump = await cli.ok(['state', 'dump'])
  const others = await cli.ok(['explain', '10.0.0.1', route.id])
  assert.match(others, /^10\.0\.0\.1 is refused at edghtsrt_\w+\.\n.*deny|^10/)
  await pause(5)
  await as('PATCH', rule.uri, { description: 'new', action: 'allow' })
  await as('PATCH', route.uri, { websocket: false, ip_restriction: null })
  for (const uri of [rule.uri, edge.uri, backend.uri]) assert.ok((await as('DELETE', uri)).status < 300, uri)
  const { tcp_edges } = (await as('GET', '/edges/tcp')).body
  assert.equal((await as('DELETE', `${tcp_edges[0].uri}/rate_limit`)).status, 204)
  assert.equal(bodyOf(await cli.ok(['state', 'dump', '--at', at])), bodyOf(dump))

  const then = await cli.ok(['explain', '--at', at, '10.0.0.1', route.id])
  assert.match(then, new RegExp(`^10\\.0\\.0\\.1 was refused at ${route.id} on ${at}\\.`))
  assert.match(then, /deny 10\.0\.0\.0\/8/)
  assert.equal((await cli(['explain', '10.0.0.1', route.id])).code, 3)

  await putRules(as, policy, ['allow 11.0.0.0/8'])
  const lost = await cli(['state', 'dump', '--at', at])
  assert.equal(lost.code, 3)
  assert.match(
    lost.stderr,
    /before ip_policies\.replace_rules of ipp_\w+ is not recorded[\s\S]*The earliest time is 20/,
  )
})

test('explain and dump refuse what they cannot answer', async () => {
  const as = await plane.newAccount()
  const cli = cliFor(plane, as)
  for (const args of [
    ['explain', '10.0.0.1'],
    ['explain', '10.0.0.1', 'edghts_1'],
    ['explain', '10.0.0.1', 'api', '--output', 'xml'],
    ['state', 'dump', '--at', 'yesterday'],
    ['state', 'dump', '--at', '2999-01-01'],
  ])
    assert.equal((await cli(args)).code, 2, args.join(' '))
  const early = await cli(['state', 'dump', '--at', '2020-01-01'])
  assert.equal(early.code, 3)
  assert.match(early.stderr, /The earliest time is 20/)
  assert.equal((await cli(['explain', '--at', '2020-01-01', '10.0.0.1', 'api'])).code, 3)
  assert.match(await cli.ok(['explain', '10.0.0.1', 'api', '--output', 'json']), /"allowed": ?true/)
  const member = await newUser(plane, as)
  const now = new Date().toISOString()
  assert.equal((await cliFor(plane, member)(['state', 'dump', '--at', now])).code, 4)
  assert.equal((await cliFor(plane, member)(['explain', '--at', now, '10.0.0.1', 'api'])).code, 4)
})
