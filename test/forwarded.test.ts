import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { startControlPlane } from './harness/control_plane.ts'
import { getFrom, policyWith, restrict } from './harness/ip.ts'

const plane = await startControlPlane({ after })
const [trustsNoProxy = assert.fail()] = plane.processes
const [trusting, onIPv6, onBoth, onBothUntrusting] = await Promise.all([
  plane.startProcess({ GATEHOUSE_TRUSTED_PROXIES: '127.0.0.1, 10.0.0.0/8, 2001:db8:1::/48' }),
  plane.startProcess({ GATEHOUSE_LISTEN: '[::1]:0', GATEHOUSE_TRUSTED_PROXIES: '::1' }),
  plane.startProcess({ GATEHOUSE_LISTEN: '[::]:0', GATEHOUSE_TRUSTED_PROXIES: '127.0.0.1' }),
  plane.startProcess({ GATEHOUSE_LISTEN: '[::]:0' }),
])
const { token } = await plane.newAccount()

type Lines = readonly (readonly [string, string])[]
type Where = { host: string; port: number; localAddress?: string }
const at = ({ port }: { port: number }, localAddress = '127.0.0.1', host = '127.0.0.1'): Where => ({
  host,
  port,
  localAddress,
})
const sourceOf = async (where: Where, ...headers: Lines) => {
  const { status, body } = await getFrom(where, '/caller', token, headers)
  assert.equal(status, 200, JSON.stringify(body))
  return body.source_ip
}
const forwardedFor = (...values: string[]): Lines => values.map((value) => ['X-Forwarded-For', value] as const)

const forged = '203.0.113.9'
const forgeries: Lines[] = [
  forwardedFor(forged),
  forwardedFor(`${forged}, ${forged}`),
  forwardedFor(forged, forged),
  forwardedFor('127.0.0.1'),
  forwardedFor(`${forged}, 127.0.0.1`),
  [['x-forwarded-for', forged]],
  [['X_Forwarded_For', forged]],
  [['Forwarded', `for=${forged}`]],
  [['Forwarded', `for="[2001:db8::9]:443";proto=https;by=127.0.0.1`]],
  [['X-Real-IP', forged]],
  [['X-Client-IP', forged]],
  [['X-Cluster-Client-IP', forged]],
  [['True-Client-IP', forged]],
  [['CF-Connecting-IP', forged]],
  [['X-Original-Forwarded-For', forged]],
  [['Via', `1.1 ${forged}`]],
  [...forwardedFor(forged), ['Forwarded', `for=${forged}`], ['X-Real-IP', forged]],
]

test('the source address is that of the connection', async () => {
  for (const process of [trustsNoProxy, trusting]) {
    assert.equal(await sourceOf(at(process)), '127.0.0.1')
    assert.equal(await sourceOf(at(process, '127.0.0.2')), '127.0.0.2')
  }
  assert.equal(await sourceOf(at(onIPv6, '::1', '::1')), '::1')
})

test('forged headers from an untrusted peer are never believed', async () => {
  for (const headers of forgeries) {
    const what = JSON.stringify(headers)
    assert.equal(await sourceOf(at(trustsNoProxy), ...headers), '127.0.0.1', what)
    assert.equal(await sourceOf(at(trusting, '127.0.0.2'), ...headers), '127.0.0.2', what)
    assert.equal(await sourceOf(at(onBothUntrusting), ...headers), '127.0.0.1', what)
  }
})

test('from a trusted peer only X-Forwarded-For counts', async () => {
  for (const headers of forgeries.filter((lines) => lines.every(([name]) => !/^x-forwarded-for$/i.test(name))))
    assert.equal(await sourceOf(at(trusting), ...headers), '127.0.0.1', JSON.stringify(headers))
})

const believed: [why: string, headers: Lines, source: string | null][] = [
  ['the address it was called from', forwardedFor(forged), forged],
  ['the last of a list, not what the client wrote before it', forwardedFor(`198.51.100.1, ${forged}`), forged],
  ['past further trusted proxies', forwardedFor(`198.51.100.1, ${forged}, 10.0.0.5, 2001:db8:1::5`), forged],
  ['not past an untrusted one', forwardedFor(`198.51.100.1, ${forged}, 192.0.2.1, 10.0.0.5`), '192.0.2.1'],
  ['several lines as one list', forwardedFor('198.51.100.1', `${forged}`, '10.0.0.5'), forged],
  [
    'several lists in several lines',
    forwardedFor(`198.51.100.1, 198.51.100.2`, `198.51.100.3,\t${forged} , 10.0.0.5`),
    forged,
  ],
  ['the first of all when all are proxies', forwardedFor('10.0.0.1, 10.0.0.2'), '10.0.0.1'],
  ['an IPv6 address, in its canonical form', forwardedFor('2001:DB8:0::9'), '2001:db8::9'],
  ['a mapped address, as IPv4', forwardedFor('::ffff:203.0.113.9'), forged],
  ['a mapped proxy, as the proxy that it is', forwardedFor(`${forged}, ::ffff:10.0.0.5`), forged],
  ['nothing when the entry is no address', forwardedFor(`${forged}, unknown`), null],
  ['nothing when the entry has a port', forwardedFor(`${forged}:4711`), null],
  ['nothing when the entry is in brackets', forwardedFor('[2001:db8::9]'), null],
  ['nothing when the entry has a zone', forwardedFor('fe80::1%eth0'), null],
  ['nothing when the entry is octal', forwardedFor('0313.0.113.9'), null],
  ['nothing when the entry is empty', forwardedFor(`${forged},`), null],
  ['nothing when the whole header is empty', forwardedFor(''), null],
  ['nothing behind garbage, not even what stands before it', forwardedFor(`${forged}, garbage, 10.0.0.5`), null],
]
for (const [why, headers, source] of believed) {
  test(`from a trusted peer: ${why}`, async () => {
    assert.equal(await sourceOf(at(trusting), ...headers), source)
  })
}

test('an IPv6 peer can be a trusted proxy', async () => {
  assert.equal(await sourceOf(at(onIPv6, '::1', '::1'), ...forwardedFor(forged)), forged)
  assert.equal(await sourceOf(at(onIPv6, '::1', '::1'), ...forwardedFor('2001:db8::9')), '2001:db8::9')
})

test('an IPv4 peer on an IPv6 socket counts as its IPv4 address', async () => {
  assert.equal(await sourceOf(at(onBoth, '127.0.0.3')), '127.0.0.3')
  assert.equal(await sourceOf(at(onBoth, '127.0.0.3'), ...forwardedFor(forged)), '127.0.0.3', 'not trusted')
  assert.equal(await sourceOf(at(onBoth), ...forwardedFor(forged)), forged, 'trusted')
  assert.equal(await sourceOf(at(onBoth, '::1', '::1'), ...forwardedFor(forged)), '::1', 'another peer, not trusted')
})

test("an enforced restriction uses the connection's address, not what an untrusted peer claims", async () => {
  const admin = await plane.newAccount()
  const ip_policy_ids = [await policyWith(admin, 'allow 127.0.0.1', `allow ${forged}`)]
  await restrict(admin, { enforced: true, ip_policy_ids })
  const statusOf = async (where: Where, ...headers: Lines) =>
    (await getFrom(where, '/caller', admin.token, headers)).status
  for (const headers of forgeries) {
    const what = JSON.stringify(headers)
    assert.equal(await statusOf(at(trustsNoProxy), ...headers), 200, what)
    assert.equal(await statusOf(at(trustsNoProxy, '127.0.0.2'), ...headers), 403, what)
    assert.equal(await statusOf(at(trusting, '127.0.0.2'), ...headers), 403, what)
    assert.equal(await statusOf(at(onBothUntrusting, '127.0.0.2'), ...headers), 403, what)
    assert.equal(await statusOf(at(onBothUntrusting, '::1', '::1'), ...headers), 403, what)
  }
  assert.equal(await statusOf(at(trusting), ...forwardedFor(forged)), 200)
  assert.equal(
    await statusOf(at(trusting), ...forwardedFor(`${forged}, 198.51.100.1`)),
    403,
    'the client wrote the allowed one',
  )
  assert.equal(await statusOf(at(trusting), ...forwardedFor('127.0.0.1, garbage')), 403)
})
