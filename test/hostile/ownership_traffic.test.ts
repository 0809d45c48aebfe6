// Rows 1 and 5 of the security review, with real traffic: what one account's clients reach is never another's to change.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { run } from '../../src/db/pool.ts'
import { sql } from '../../src/db/sql.ts'
import { transaction } from '../../src/db/transaction.ts'
import { refuseOverlaps } from '../../src/resources/edges/ownership.ts'
import { assertRefused, newBackend } from '../harness/fixtures.ts'
import { policyWith } from '../harness/ip.ts'
import { poll } from '../harness/poll.ts'
import { newHttpsSite, newTcpSite, reachHttps, reachTcp, startHostileTenants } from '../harness/tenants.ts'

const { installation, edge, victim, attacker } = await startHostileTenants(
  { after },
  { names: ['*.corp.example', '*.b.corp.example', '*.own.example', '*.before.example'] },
)
const { db } = installation
let ports = edge.tcpPorts.first
const freePort = () => ports++

test('two accounts share one edge node, each with its own traffic', async () => {
  const [first, second] = [freePort(), freePort()]
  assert.equal((await newTcpSite(victim, [`tcp.example:${first}`])).status, 201)
  assert.equal((await newTcpSite(attacker, [`tcp.other.example:${second}`])).status, 201)
  assert.equal((await newHttpsSite(victim, ['one.example:443'])).status, 201)
  assert.equal((await newHttpsSite(attacker, ['two.example:443'])).status, 201)
  assert.deepEqual([await reachTcp(first), await reachTcp(second)], ['victim', 'attacker'])
  assert.deepEqual(await reachHttps(edge, 'one.example'), { status: 200, body: 'victim' })
  assert.deepEqual(await reachHttps(edge, 'two.example'), { status: 200, body: 'attacker' })
})

test('row 1: no account takes the TCP traffic of another, by an address, a name, a PATCH or many at once', async () => {
  const [port, spare] = [freePort(), freePort()]
  const site = await newTcpSite(victim, [`tcp.example:${port}`])
  const { as } = attacker
  const own = await newTcpSite(attacker, [`spare.example:${spare}`])
  const attempts = ['127.0.0.1', '[::1]', 'tcp.example', 'a.example', '0.0.0.0'].flatMap((host) => [
    newTcpSite(attacker, [`${host}:${port}`]),
    as('PATCH', `${own.body.uri}?wait=applied`, { hostports: [`${host}:${port}`] }),
  ])
  for (const answer of await Promise.all(attempts)) assertRefused(answer, 409, 'ERR_HOSTPORT_TAKEN', 'hostports[0]')
  assert.equal(await reachTcp(port), 'victim')

  const policyId = await policyWith(victim.as, 'allow 127.0.0.1')
  const guarded = await victim.as('PUT', `${site.body.uri}/ip_restriction?wait=applied`, { ip_policy_ids: [policyId] })
  assert.equal(guarded.headers.get('service-applied'), '1/1')
  assert.deepEqual([await reachTcp(port), await reachTcp(port, '127.0.0.9')], ['victim', undefined])
})

test('row 1: a port that another account squats on is refused', async () => {
  const port = freePort()
  assert.equal((await newTcpSite(attacker, [`squat.example:${port}`])).status, 201)
  assertRefused(await newTcpSite(victim, [`tcp.example:${port}`]), 409, 'ERR_HOSTPORT_TAKEN', 'hostports[0]')
})

test('row 5: no account takes a name under the wildcard of another', async () => {
  const domain = 'corp.example'
  assert.equal((await newHttpsSite(victim, [`*.${domain}:443`])).status, 201)
  for (const name of [`admin.${domain}`, `*.${domain}`, `*.admin.${domain}`, domain, `a.b.${domain}`])
    assertRefused(await newHttpsSite(attacker, [`${name}:443`]), 409, 'ERR_HOSTPORT_TAKEN', 'hostports[0]')
  assertRefused(await newHttpsSite(attacker, ['*.example:443']), 400, 'ERR_INVALID_FIELD', 'hostports[0]')
  for (const name of ['admin', 'a.b'])
    assert.deepEqual(await reachHttps(edge, `${name}.${domain}`), { status: 200, body: 'victim' })
  assert.equal((await reachHttps(edge, domain)).status, 404)
})

test('within an account names may overlap, and the most specific one wins', async () => {
  assert.equal((await newHttpsSite(victim, ['*.own.example:443'])).status, 201)
  const other = await newBackend(victim.as, { address: `127.0.0.1:${attacker.upstreamPort}` })
  const special = await newHttpsSite({ ...victim, backendId: other.id }, ['special.own.example:443'])
  assert.equal(special.status, 201, special.text)
  assert.equal((await reachHttps(edge, 'any.own.example')).body, 'victim')
  assert.equal((await reachHttps(edge, 'special.own.example')).body, 'attacker', 'the other upstream')
})

test('overlaps from before the constraint: the older claim gets its traffic back on live nodes, and the other shows why', async () => {
  const port = freePort()
  assert.equal((await newTcpSite(victim, [`old.example:${port}`])).status, 201)
  assert.equal((await newHttpsSite(victim, ['*.before.example:443'])).status, 201)
  // As it was before: the review's attack, which shows that the tests above would notice it.
  await run(db, sql`alter table hostports disable trigger user`)
  const [stolen, name] = [
    await newTcpSite(attacker, [`127.0.0.1:${port}`, `tcp.attacker.example:${freePort()}`]),
    await newHttpsSite(attacker, ['admin.before.example:443']),
  ]
  assert.deepEqual([stolen.status, name.status], [201, 201])
  assert.equal(await reachTcp(port), 'attacker')
  assert.equal((await reachHttps(edge, 'admin.before.example')).body, 'attacker')

  await run(db, sql`alter table hostports enable trigger user`)
  const refused = await transaction(db, (tx) => refuseOverlaps(tx, []))
  assert.deepEqual(
    refused.map(({ hostport, reason, overlaps }) => [hostport, reason, overlaps?.hostport]),
    [
      [`127.0.0.1:${port}`, 'overlap', `old.example:${port}`],
      ['admin.before.example:443', 'overlap', '*.before.example:443'],
    ],
  )
  await poll(
    () => reachTcp(port),
    (text) => text === 'victim',
  )
  await poll(
    async () => (await reachHttps(edge, 'admin.before.example')).body,
    (body) => body === 'victim',
  )

  const { as } = attacker
  const shown = (await as('GET', stolen.body.uri)).body
  assert.deepEqual(shown.hostports, stolen.body.hostports.slice(1))
  assert.deepEqual(
    shown.refused_hostports.map(({ hostport, reason }: Record<string, string>) => [hostport, reason]),
    [[`127.0.0.1:${port}`, 'overlap']],
  )
  assertRefused(await as('PATCH', stolen.body.uri, stolenHostports()), 409, 'ERR_HOSTPORT_TAKEN', 'hostports[0]')

  // It comes back when its account asks for it and it is free, not by itself: no account waits in ambush for a name.
  const [{ uri }] = (await victim.as('GET', '/edges/tcp')).body.tcp_edges.filter(
    ({ hostports }: { hostports: string[] }) => hostports.includes(`old.example:${port}`),
  )
  await victim.as('DELETE', `${uri}?wait=applied`)
  assert.equal(await reachTcp(port), undefined)
  const again = await as('PATCH', `${stolen.body.uri}?wait=applied`, stolenHostports())
  assert.deepEqual([again.status, again.body.refused_hostports], [200, undefined], again.text)
  assert.equal(await reachTcp(port), 'attacker')

  function stolenHostports() {
    return { hostports: stolen.body.hostports }
  }
})
