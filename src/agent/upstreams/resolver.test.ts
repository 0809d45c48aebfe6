import assert from 'node:assert/strict'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { type DnsServer, startDnsServer } from '../../../test/harness/dns_server.ts'
import { loadScaledTimeout } from '../../../test/harness/load_scaled_timeout.ts'
import { poll } from '../../../test/harness/poll.ts'
import type { EdgeRecord } from '../../distribution/records.ts'
import { newId } from '../../kernel/ids.ts'
import { compilePolicy } from '../../kernel/ip/ranges.ts'
import { openDns } from './dns.ts'
import { createUpstreamPolicy } from './policy.ts'
import { openResolver } from './resolver.ts'
import { createUpstreams } from './upstreams.ts'

const backend = (host: string) => ({ host, port: 80, tls: false })
const wanted = (host: string, ...accounts: string[]) => ({ record: backend(host), accounts })

/** Its own hosts and resolv.conf files, and a resolver that queries the given server. */
async function start(
  t: TestContext,
  answers: DnsServer['answers'],
  files: { saved?: string; hosts?: string; resolv?: string } = {},
) {
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-resolver-'))
  const file = join(folder, 'addresses.json')
  const [hostsFile, resolverFile] = [join(folder, 'hosts'), join(folder, 'resolv.conf')]
  if (files.saved !== undefined) await writeFile(file, files.saved)
  await writeFile(hostsFile, files.hosts ?? '')
  await writeFile(resolverFile, files.resolv ?? '')
  const server = await startDnsServer({ after: (work) => t.after(work) }, answers)
  const changed: string[] = []
  const dns = await openDns({ servers: [server.address], hostsFile, resolverFile })
  const resolver = await openResolver({ file, dns, onChange: (key) => changed.push(key), onError: assert.fail })
  t.after(async () => {
    await resolver.stop()
    await rm(folder, { recursive: true })
  })
  const addressOf = (host: string) => resolver.resolve(`backend.${host}`, backend(host)).address
  return { server, resolver, changed, file, hostsFile, addressOf }
}

test('an address is used as it is, and a name resolves through DNS, IPv4 first', async (t) => {
  const answers: Record<string, string[]> = {
    'four.example': ['192.0.2.1'],
    'six.example': ['2001:db8::6'],
    'both.example': ['2001:db8::6', '192.0.2.1'],
  }
  const { resolver, addressOf } = await start(t, (name) => answers[name])
  const hosts = ['192.0.2.7', '[2001:db8::1]', 'four.example', 'six.example', 'both.example', 'none.example']
  await resolver.prepare(hosts.map((host) => wanted(host, 'ac_1')))
  assert.deepEqual(hosts.map(addressOf), ['192.0.2.7', '2001:db8::1', '192.0.2.1', '2001:db8::6', '192.0.2.1', null])
  assert.equal(resolver.unresolved(), 1)
})

test('names in the hosts file and the search list resolve as the system resolves them', async (t) => {
  const answers: Record<string, string[]> = { 'app.svc.cluster.test': ['192.0.2.1'], 'app.other.test': ['192.0.2.2'] }
  const hosts = '# comment\n192.0.2.9 legacy legacy.internal # app\n2001:db8::9 legacy\n'
  const resolv = 'nameserver 192.0.2.53\nsearch svc.cluster.test other.test\noptions ndots:2\n'
  const { resolver, server, addressOf } = await start(t, (name) => answers[name], { hosts, resolv })
  const names = ['legacy', 'legacy.internal', 'app', 'localhost', 'x.localhost']
  await resolver.prepare(names.map((name) => wanted(name, 'ac_1')))
  assert.deepEqual(names.map(addressOf), ['192.0.2.9', '192.0.2.9', '192.0.2.1', '127.0.0.1', '127.0.0.1'])
  assert.deepEqual(new Set(server.asked), new Set(['app.svc.cluster.test']))
})

test('resolved names survive restarts and DNS outages; unused ones are forgotten', async (t) => {
  const saved = JSON.stringify({ 'known.example': '192.0.2.9', 'unused.example': '192.0.2.1' })
  const { resolver, file, addressOf } = await start(t, (name) => (name === 'new.example' ? ['192.0.2.2'] : 'silent'), {
    saved,
  })
  await resolver.prepare([wanted('known.example', 'ac_1'), wanted('new.example', 'ac_1')])
  assert.deepEqual([addressOf('known.example'), addressOf('new.example')], ['192.0.2.9', '192.0.2.2'])
  await resolver.stop()
  const kept = JSON.parse(await readFile(file, 'utf8'))
  assert.deepEqual(kept, { 'known.example': ['192.0.2.9'], 'new.example': ['192.0.2.2'] })
})

test('an unreadable file counts as missing, and names are not confused with object properties', async (t) => {
  for (const saved of ['{"upstream.inv', '{"upstream.example": "not an address"}', '[]', '{}']) {
    const { resolver, addressOf } = await start(t, () => undefined, { saved })
    const names = ['upstream.example', 'constructor', 'valueof']
    await resolver.prepare(names.map((name) => wanted(name, 'ac_1')))
    assert.deepEqual(names.map(addressOf), [null, null, null])
  }
})

test('late and changed answers are reported; reordered ones are not', async (t) => {
  let answer: string[] | 'silent' = 'silent'
  const { resolver, changed, addressOf, hostsFile } = await start(t, () => answer)
  await resolver.prepare([wanted('late.example', 'ac_1')])
  assert.equal(addressOf('late.example'), null)
  answer = ['192.0.2.1', '192.0.2.2']
  await poll(
    () => changed.length,
    (length) => length === 1,
  )
  const first = addressOf('late.example')
  assert.ok(answer.includes(first ?? ''))
  await writeFile(hostsFile, '192.0.2.3 late.example\n')
  await poll(
    () => addressOf('late.example'),
    (address) => address === '192.0.2.3',
  )
  assert.deepEqual(changed, ['backend.late.example', 'backend.late.example'])
})

test("row 9: a thousand unresponsive names of one account do not delay another's, and are queried less and less often", async (t) => {
  const { resolver, server, addressOf } = await start(t, (name) => (name.startsWith('good') ? ['192.0.2.1'] : 'silent'))
  const bad = Array.from({ length: 1_000 }, (_, index) => wanted(`bad${index}.example`, 'ac_hostile'))
  await resolver.prepare(bad)
  for (const { record } of bad) addressOf(record.host)
  for (let index = 0; index < 5; index++) {
    const began = performance.now()
    // The hostile account continues, but changes no longer wait for it.
    await resolver.prepare([
      wanted(`bad-again${index}.example`, 'ac_hostile'),
      wanted(`good${index}.example`, 'ac_honest'),
    ])
    assert.equal(addressOf(`good${index}.example`), '192.0.2.1')
    const waited = performance.now() - began
    assert.ok(waited < loadScaledTimeout(900), `${waited} ms`)
  }
  const silent = server.asked.filter((name) => name.startsWith('bad'))
  assert.ok(silent.length < 200, `${silent.length} queries for names that do not answer`)
})

test('row 9: a queued name is queried immediately once an edge uses it', async (t) => {
  const { resolver, addressOf } = await start(t, (name) => (name === 'good.example' ? ['192.0.2.1'] : 'silent'))
  const idle = [...Array.from({ length: 1_000 }, (_, index) => wanted(`bad${index}.example`)), wanted('good.example')]
  const began = performance.now()
  await resolver.prepare(idle)
  assert.ok(performance.now() - began < loadScaledTimeout(900), 'no change waits for names that nothing uses')
  for (const { record } of idle) addressOf(record.host)
  await resolver.prepare([wanted('good.example', 'ac_honest')])
  assert.equal(addressOf('good.example'), '192.0.2.1')
})

test('all addresses of a name are used, and those that may not be dialed are left out', async (t) => {
  let addresses = ['192.0.2.2', '192.0.2.1', '169.254.0.1']
  const { resolver, changed } = await start(t, () => addresses)
  const none = compilePolicy([])
  const upstreams = createUpstreams(
    resolver,
    createUpstreamPolicy({ deny: none, allow: none, ownPorts: [], ownAddresses: () => [] }),
  )
  const [account, member] = [newId('ac'), newId('bkdst')]
  const record: EdgeRecord = { key: `backend.${member}`, generation: 1, value: backend('several.example') }
  const refused: string[] = []
  const handlers = { refused: (_: EdgeRecord, reason: string) => refused.push(reason), accepted: () => refused.pop() }
  const dialed = () => upstreams.resolve(record, handlers).addresses
  const user: EdgeRecord = { key: 'weighted.x', generation: 1, value: { account, backends: [[member, 1]] } }
  await upstreams.prepare([record, user], new Map())
  assert.deepEqual(dialed(), ['192.0.2.2', '192.0.2.1'])
  assert.deepEqual(refused, ['is dialed without 1 of the 3 addresses of its name: one of them is a link-local address'])
  addresses = ['192.0.2.3', '192.0.2.1']
  await poll(() => changed.length > 0)
  assert.deepEqual([dialed(), refused], [['192.0.2.1', '192.0.2.3'], []])
})
