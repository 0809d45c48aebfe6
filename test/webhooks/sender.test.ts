// Names that tenants choose, and the addresses that they lead to at the moment of dialing.
import assert from 'node:assert/strict'
import { Resolver } from 'node:dns/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { test } from 'node:test'
import { networks } from '../../src/config/values.ts'
import { createDialPolicy } from '../../src/kernel/ip/dial_policy.ts'
import { createSender } from '../../src/webhooks/sender.ts'
import type { Scope } from '../harness/control_plane.ts'
import { type DnsServer, startDnsServer } from '../harness/dns_server.ts'

async function newSender(scope: Scope, answers: DnsServer['answers'], allow = '', ownPort?: number) {
  const dns = await startDnsServer(scope, answers)
  const resolver = new Resolver({ timeout: 500, tries: 1 })
  resolver.setServers([dns.address])
  const policy = createDialPolicy({
    deny: networks('198.18.0.0/15'),
    allow: networks(allow),
    ownPorts: ownPort ? [{ first: ownPort, last: ownPort }] : [],
    ownAddresses: () => ['192.88.99.7'],
    deniesPrivate: true,
    words: { self: 'server', operator: 'the operator' },
  })
  const { send, close } = createSender(policy, resolver)
  scope.after(async () => close())
  const signal = new AbortController().signal
  return { dns, post: (url: string) => send(url, { 'content-type': 'application/json' }, '{}', signal) }
}

test('a name is refused for every address that a tenant may not reach, under any name', async (t) => {
  const inside: Record<string, string> = {
    'loopback.example.com': '127.0.0.1',
    'six.example.com': '::1',
    'metadata.example.com': '169.254.169.254',
    'private.example.com': '10.0.0.1',
    'mapped.example.com': '::ffff:c0a8:1',
    'nat64.example.com': '64:ff9b::a00:1',
    'own.example.com': '192.88.99.7',
    'denied.example.com': '198.18.0.1',
  }
  const { post } = await newSender(t, (name) => (inside[name] ? [inside[name]] : undefined))
  for (const name of Object.keys(inside)) {
    const { status, error } = await post(`https://${name}/`)
    assert.equal(status, null, name)
    assert.match(error ?? '', /the name leads to an address that /, name)
    assert.ok(!error?.includes(inside[name] ?? ''), 'the address is not told')
  }
  assert.match((await post('https://unknown.example.com/')).error ?? '', /has no address/)
})

test('a name that later resolves to another address is dialed at the one that was checked', async (t) => {
  let asked = 0
  // The first answer is public, every later one leads inside.
  const { post, dns } = await newSender(t, () => (asked++ < 2 ? ['192.0.66.1'] : ['127.0.0.1']))
  const first = await post('https://rebinding.example.com:9/')
  assert.doesNotMatch(first.error ?? '', /leads to an address/)
  assert.ok(dns.asked.length <= 2, 'resolved once, for both families')
  assert.match((await post('https://rebinding.example.com:9/')).error ?? '', /is a loopback address/)
})

test('without TLS only an allowed loopback address is dialed, and no name', async (t) => {
  const { post } = await newSender(t, () => ['127.0.0.1'], '127.0.0.1/32')
  assert.match((await post('http://name.example.com/')).error ?? '', /must begin with https/)
  const server = createServer((_, response) => response.writeHead(200).end('x'.repeat(1_000_000))).listen(
    0,
    '127.0.0.1',
  )
  t.after(() => server.close())
  await new Promise((resolve) => server.once('listening', resolve))
  const { port } = server.address() as AddressInfo
  assert.deepEqual(await post(`http://127.0.0.1:${port}/`), { status: 200, error: null, retryAfterMs: 0 })
})

test('a name cannot reach the port of this server itself, even where the operator allows its address', async (t) => {
  const { post } = await newSender(t, () => ['127.0.0.1'], '127.0.0.0/8', 28_199)
  for (const host of ['127.0.0.1', 'localhost', 'lo.example.com'])
    assert.match((await post(`https://${host}:28199/`)).error ?? '', /an address that is this server itself/, host)
})

test('a 2xx counts as delivered even if its body never ends', async (t) => {
  const server = createServer((_, response) => {
    response.writeHead(200)
    response.write('{')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.after(async () => {
    server.closeAllConnections()
    server.close()
  })
  const { post } = await newSender(t, () => undefined, '127.0.0.0/8')
  const { port } = server.address() as AddressInfo
  assert.deepEqual(await post(`http://127.0.0.1:${port}/`), { status: 200, error: null, retryAfterMs: 0 })
})
