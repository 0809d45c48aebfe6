import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { type Client, createClient } from '../../../test/harness/client.ts'
import { gatehouse } from '../../../test/harness/command.ts'
import { startControlPlane } from '../../../test/harness/control_plane.ts'
import { type DnsAnswer, startDnsServer } from '../../../test/harness/dns_server.ts'
import { assertRefused, freshHost } from '../../../test/harness/fixtures.ts'
import { one, run } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import { type Id, toUuid } from '../../kernel/ids.ts'
import { createTxtLookup } from './dns.ts'
import { recheckDomains } from './recheck.ts'

const records = new Map<string, DnsAnswer>()
const dns = await startDnsServer({ after }, (name) => records.get(name))
const plane = await startControlPlane(
  { after },
  {
    processes: 2,
    env: {
      GATEHOUSE_DOMAIN_OWNERSHIP: 'required',
      GATEHOUSE_DNS_SERVERS: dns.address,
      GATEHOUSE_DOMAIN_CHECKS_PER_MINUTE: '100',
    },
  },
)
const [alice, mallory] = [await plane.newAccount(), await plane.newAccount()]

const reserve = async (as: Client, domain = freshHost()) => {
  const created = await as('POST', '/reserved_domains', { domain })
  assert.equal(created.status, 201, created.text)
  return created.body
}
// biome-ignore lint/suspicious/noExplicitAny: what the client returned, checked against openapi.json.
const publish = (...domains: any[]) =>
  records.set(
    domains[0].verification.name,
    domains.map(({ verification }) => verification.value),
  )
const verify = (as: Client, { uri }: { uri: string }, process = 0) => as('POST', `${uri}/verify`, {}, { process })
const hold = async (as: Client, domain?: string) => {
  const reserved = await reserve(as, domain)
  publish(reserved)
  const { body } = await verify(as, reserved)
  assert.equal(body.verification.status, 'verified', JSON.stringify(body))
  return body
}
const https = (as: Client, ...names: string[]) =>
  as('POST', '/edges/https', { hostports: names.map((name) => `${name}:443`) })
const statusOf = async (as: Client, { uri }: { uri: string }) => (await as('GET', uri)).body.verification.status

test('a domain is reserved, proven by its TXT record, used by a hostport, and deleted once it is not', async () => {
  const domain = freshHost()
  const reserved = await reserve(alice, domain.toUpperCase())
  assert.equal(reserved.domain, domain)
  assert.equal(reserved.verification.name, `_gatehouse-challenge.${domain}`)
  const refused = await https(alice, `app.${domain}`)
  assertRefused(refused, 409, 'ERR_DOMAIN_UNVERIFIED', 'hostports[0]')
  for (const needed of [reserved.verification.name, reserved.verification.value, `${reserved.id}/verify`])
    assert.ok(refused.body.msg.includes(needed), refused.body.msg)

  const tooEarly = await verify(alice, reserved)
  assert.equal(tooEarly.status, 200)
  assert.equal(tooEarly.body.verification.status, 'pending')
  assert.match(tooEarly.body.verification.error, /NXDOMAIN/)
  publish(reserved)
  const verified = await verify(alice, reserved)
  assert.equal(verified.body.verification.status, 'verified')
  assert.equal(verified.body.verification.error, null)
  assert.ok(verified.body.verification.verified_at)

  const edge = await https(alice, domain, `app.${domain}`, `*.apps.${domain}`)
  assert.equal(edge.status, 201, edge.text)
  const inUse = await alice('DELETE', reserved.uri)
  assertRefused(inUse, 409, 'ERR_DOMAIN_IN_USE')
  assert.ok(inUse.body.details.used_by.includes(edge.body.id))
  await alice('DELETE', edge.body.uri)
  assert.equal((await alice('DELETE', reserved.uri)).status, 204)
})

test('the message depends on what DNS answered: no answer and broken servers differ from a missing record', async () => {
  const reserved = await reserve(alice)
  const { name, value } = reserved.verification
  const cases: [DnsAnswer, RegExp][] = [
    [[], /none of type TXT/],
    [['gatehouse-verification=wrong'], /another value/],
    [['one', 'two'], /2 values, none of which/],
    ['broken', /SERVFAIL/],
  ]
  for (const [answer, message] of cases) {
    records.set(name, answer)
    const { body } = await verify(alice, reserved)
    assert.match(body.verification.error, message)
    assert.equal(body.verification.status, 'pending')
  }
  records.set(name, { cname: `proof.${reserved.domain}` })
  records.set(`proof.${reserved.domain}`, ['v=spf1 -all', value])
  assert.equal((await verify(alice, reserved)).body.verification.status, 'verified', 'through a CNAME')
})

test('public suffixes, wildcards and anything that is not a domain are refused; so is a second reservation', async () => {
  for (const domain of [
    'com',
    'co.uk',
    'github.io',
    'localhost',
    '*.example.com',
    '192.0.2.1',
    'a..b',
    `${'a.'.repeat(120)}example`,
  ])
    assertRefused(await alice('POST', '/reserved_domains', { domain }), 400, 'ERR_INVALID_FIELD', 'domain')
  const { domain } = await reserve(alice)
  assertRefused(await alice('POST', '/reserved_domains', { domain }), 409, 'ERR_DOMAIN_RESERVED', 'domain')
})

test('the value of one account proves nothing for another, and an unproven reservation blocks no other account', async () => {
  const domain = freshHost()
  const squatted = await reserve(mallory, domain)
  const owned = await reserve(alice, domain)
  assert.notEqual(squatted.verification.value, owned.verification.value)
  publish(owned)
  assert.equal((await verify(mallory, squatted)).body.verification.status, 'pending')
  assert.equal((await verify(alice, owned)).body.verification.status, 'verified')
  assert.equal((await https(alice, `*.${domain}`)).status, 201)
  assertRefused(await https(mallory, `x.${domain}`), 409, 'ERR_HOSTPORT_TAKEN', 'hostports[0]')
  assertRefused(await https(mallory, domain), 409, 'ERR_HOSTPORT_TAKEN', 'hostports[0]')
})

test('when two accounts prove one domain at once, through two processes, only one holds it', async () => {
  for (let round = 0; round < 5; round++) {
    const domain = freshHost()
    const [first, second] = [await reserve(alice, domain), await reserve(mallory, domain)]
    publish(first, second)
    const answers = await Promise.all([verify(alice, first, 0), verify(mallory, second, 1)])
    assert.deepEqual(answers.map(({ status }) => status).toSorted(), [200, 409])
    const loser = answers.find(({ status }) => status === 409)
    assert.equal(loser?.body.error_code, 'ERR_DOMAIN_TAKEN')
    for (const secret of [first.id, second.id, alice.accountId, mallory.accountId])
      assert.ok(!loser?.text.includes(secret))
    const { count } = await one<{ count: number }>(
      plane.db,
      sql`select count(*) from reserved_domains where domain = ${domain} and status = 'verified'`,
    )
    assert.equal(count, 1)
  }
})

test('when only the record of another account is left, that account can take the domain over', async () => {
  const domain = freshHost()
  const [before, next] = [await hold(alice, domain), await reserve(mallory, domain)]
  publish(before, next)
  assert.equal((await verify(mallory, next)).body.error_code, 'ERR_DOMAIN_TAKEN')
  publish(next)
  assert.equal((await verify(mallory, next)).body.verification.status, 'verified')
  assert.equal(await statusOf(alice, before), 'lapsed')
  const { body: audit } = await alice('GET', `/audit_events?resource_id=${before.id}`)
  assert.ok(audit.audit_events.some(({ operation }: { operation: string }) => operation === 'server.domains.lapse'))
})

test('the nearest held domain decides: a delegated subdomain can be of another account', async () => {
  const domain = freshHost()
  await hold(alice, domain)
  await hold(mallory, `team.${domain}`)
  assert.equal((await https(mallory, `app.team.${domain}`)).status, 201)
  assert.equal((await https(alice, `www.${domain}`)).status, 201)
  assertRefused(await https(alice, `other.team.${domain}`), 409, 'ERR_HOSTPORT_TAKEN', 'hostports[0]')
  assertRefused(await https(mallory, `www2.${domain}`), 409, 'ERR_HOSTPORT_TAKEN', 'hostports[0]')
})

const makeUnproven = (domain: string) =>
  run(plane.db, sql`update hostports set reserved_domain_id = null where hostport like ${`%${domain}:443`}`)

test('hostports from before stay as they are, and give way when another account proves their domain', async () => {
  const domain = freshHost()
  // As the version before would have left it.
  const squatted = await hold(mallory, domain)
  const edge = (await https(mallory, `www.${domain}`, `*.a.${domain}`, domain)).body
  await makeUnproven(domain)
  await mallory('DELETE', squatted.uri)

  const kept = await mallory('PATCH', edge.uri, { hostports: edge.hostports.slice(0, 2), description: 'kept' })
  assert.equal(kept.status, 200, kept.text)
  const more = await mallory('PATCH', edge.uri, { hostports: [...kept.body.hostports, `new.${domain}:443`] })
  assertRefused(more, 409, 'ERR_DOMAIN_UNVERIFIED', 'hostports[2]')

  await hold(alice, domain)
  assert.deepEqual((await mallory('GET', edge.uri)).body.hostports, kept.body.hostports, 'a proof alone takes nothing')
  assert.equal((await https(alice, `www.${domain}`, `x.a.${domain}`)).status, 201)
  const after = (await mallory('GET', edge.uri)).body
  assert.deepEqual(after.hostports, [])
  assert.deepEqual(
    after.refused_hostports.map(({ hostport, reason }: Record<string, string>) => [hostport, reason]),
    kept.body.hostports.map((hostport: string) => [hostport, 'domain_owned']),
  )
  assertRefused(
    await mallory('PATCH', edge.uri, { hostports: [`www.${domain}:443`] }),
    409,
    'ERR_HOSTPORT_TAKEN',
    'hostports[0]',
  )
})

test('a hostport whose account proves the domain later is proven too', async () => {
  const domain = freshHost()
  const first = await hold(alice, domain)
  const edge = (await https(alice, `www.${domain}`)).body
  await makeUnproven(domain)
  await alice('DELETE', first.uri)
  const again = await hold(alice, domain)
  assertRefused(await alice('DELETE', again.uri), 409, 'ERR_DOMAIN_IN_USE')
  await alice('DELETE', edge.uri)
})

const dayMs = 24 * 60 * 60 * 1_000
const lookUpTxt = createTxtLookup([dns.address])
const recheckAfter = async (days: number) => {
  const changed = await recheckDomains(plane.db, { lookUpTxt, graceMs: 7 * dayMs }, () => Date.now() + days * dayMs)
  return changed.map(({ domain, status }) => `${domain} ${status}`)
}

test('a record that has gone is noticed within a day; the domain lapses after the grace period, and not before', async () => {
  const held = await hold(alice)
  const edge = (await https(alice, `www.${held.domain}`)).body
  assert.ok(!(await recheckAfter(0.9)).some((line) => line.startsWith(held.domain)), 'not due yet')
  records.set(held.verification.name, 'broken')
  assert.ok(!(await recheckAfter(2)).some((line) => line.startsWith(held.domain)))
  assert.equal(await statusOf(alice, held), 'verified', 'a broken name server says nothing')
  records.delete(held.verification.name)
  assert.ok((await recheckAfter(3.1)).includes(`${held.domain} failing`))
  const { body: failing } = await alice('GET', held.uri)
  assert.ok(failing.verification.lapses_at)
  assert.match(failing.verification.error, /NXDOMAIN/)
  assert.equal((await https(alice, `more.${held.domain}`)).status, 201, 'still held')
  assert.ok(!(await recheckAfter(10)).some((line) => line.startsWith(held.domain)))
  assert.ok((await recheckAfter(10.2)).includes(`${held.domain} lapsed`))
  assertRefused(await https(alice, `third.${held.domain}`), 409, 'ERR_DOMAIN_UNVERIFIED', 'hostports[0]')
  assert.deepEqual((await alice('GET', edge.uri)).body.hostports, edge.hostports, 'traffic goes on')
  publish(held)
  assert.equal((await verify(alice, held)).body.verification.status, 'verified')
})

test('a record that is back within the grace period ends the warning', async () => {
  const held = await hold(alice)
  records.delete(held.verification.name)
  assert.equal((await verify(alice, held)).body.verification.status, 'failing')
  publish(held)
  assert.ok((await recheckAfter(0.1)).includes(`${held.domain} verified`))
})

const operator = (...args: string[]) => gatehouse(['domains', ...args], { GATEHOUSE_DATABASE_URL: plane.databaseUrl })

test('the operator assigns a domain without a proof, and takes it back', async () => {
  const domain = freshHost()
  const squatted = await reserve(mallory, domain)
  const assigned = await operator('assign', alice.accountId, domain)
  assert.equal(assigned.code, 0, assigned.stderr)
  const { id, status } = JSON.parse(assigned.stdout)
  assert.equal(status, 'assigned')
  assert.equal((await https(alice, `www.${domain}`)).status, 201)
  publish(squatted)
  assert.equal((await verify(mallory, squatted)).body.error_code, 'ERR_DOMAIN_TAKEN', 'a proof does not undo it')
  assert.equal((await verify(alice, { uri: `/reserved_domains/${id}` })).body.verification.status, 'assigned')
  const taken = await operator('assign', mallory.accountId, domain)
  assert.equal(taken.code, 1)
  assert.match(taken.stderr, /Another account/)
  assert.equal((await operator('unassign', mallory.accountId, domain)).code, 1)
  assert.equal((await operator('unassign', alice.accountId, domain)).code, 0)
  assert.equal((await verify(mallory, squatted)).body.verification.status, 'verified')
  assert.equal((await https(mallory, `www.${domain}`)).status, 201, 'what was assigned gives way to a proof')
  assert.match((await operator('list')).stdout, new RegExp(`"domain":"${domain}"`))
  for (const args of [
    ['assign', alice.accountId],
    ['assign', alice.accountId, 'x y'],
    ['give', 'a', 'b.example'],
  ])
    assert.equal((await operator(...args)).code, 2)
  assert.equal((await operator('assign', 'no-account', domain)).code, 1)
})

test('the checks that an account can ask for in a minute are limited', async () => {
  const { origin } = await plane.startProcess({ GATEHOUSE_DOMAIN_CHECKS_PER_MINUTE: '3' })
  const process = plane.processes.findIndex((each) => each.origin === origin)
  const [eager, other] = [await plane.newAccount(), await plane.newAccount()]
  const reserved = await reserve(eager)
  const asked = dns.asked.length
  for (let count = 0; count < 3; count++) assert.equal((await verify(eager, reserved, process)).status, 200)
  const limited = await verify(eager, reserved, process)
  assertRefused(limited, 429, 'ERR_RATE_LIMITED')
  assert.ok(Number(limited.headers.get('retry-after')) > 0)
  assert.equal(dns.asked.length, asked + 3)
  assert.equal((await verify(other, await reserve(other), process)).status, 200)
})

test('by default one account needs no proof, and two do; trusting all accounts still leaves a proven domain to its own', async (t) => {
  const small = await startControlPlane(t, {
    processes: 1,
    env: { GATEHOUSE_DOMAIN_OWNERSHIP: 'auto', GATEHOUSE_DNS_SERVERS: dns.address },
  })
  const first = await small.newAccount()
  const domain = freshHost()
  assert.equal((await https(first, `a.${domain}`)).status, 201)
  const env = { GATEHOUSE_DATABASE_URL: small.databaseUrl }
  const second = await gatehouse(['bootstrap', '--account', 'second'], env)
  assert.equal(second.code, 0)
  assert.match(second.stderr, /GATEHOUSE_DOMAIN_OWNERSHIP=trusted/)
  assert.equal((await gatehouse(['bootstrap', '--account', 'third'], env)).stderr, '', 'told once')
  assertRefused(await https(first, `b.${domain}`), 409, 'ERR_DOMAIN_UNVERIFIED', 'hostports[0]')
  await small.startProcess({ GATEHOUSE_DOMAIN_OWNERSHIP: 'trusted' })
  const origins = [small.processes[1]?.origin ?? '']
  const guest = createClient(origins, JSON.parse(second.stdout).token)
  assert.equal((await https(guest, `guest.${domain}`)).status, 201)
  await hold(first, domain)
  assertRefused(await https(guest, `b.${domain}`), 409, 'ERR_HOSTPORT_TAKEN', 'hostports[0]')
})

test('a reservation that is deleted while it is being checked leaves nothing behind', async () => {
  const reserved = await reserve(alice)
  publish(reserved)
  const [gone, checked] = await Promise.all([alice('DELETE', reserved.uri), verify(alice, reserved, 1)])
  assert.equal(gone.status, 204)
  assert.ok([200, 404].includes(checked.status), checked.text)
  const { count } = await one<{ count: number }>(
    plane.db,
    sql`select count(*) from reserved_domains where id = ${toUuid(reserved.id as Id<'rd'>)}`,
  )
  assert.equal(count, 0)
})
