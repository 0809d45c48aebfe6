import assert from 'node:assert/strict'
import { networkInterfaces } from 'node:os'
import { test } from 'node:test'
import { parseCidr } from '../../kernel/ip/cidr.ts'
import type { Service } from '../../kernel/ip/dial_policy.ts'
import { compilePolicy } from '../../kernel/ip/ranges.ts'
import { createUpstreamPolicy } from './policy.ts'

const networks = (...texts: string[]) =>
  compilePolicy(
    texts.map((text) => {
      const { cidr, fault } = parseCidr(text)
      if (!cidr) throw new Error(fault)
      return { cidr, action: 'allow' as const }
    }),
  )
type Given = { deny?: string[]; allow?: string[]; own?: () => string[]; services?: () => Service[] }
const policy = ({
  deny = [],
  allow = [],
  own = () => ['198.51.100.7', '2001:db8::7'],
  services = () => [],
}: Given = {}) =>
  createUpstreamPolicy({
    deny: networks(...deny),
    allow: networks(...allow),
    ownPorts: [
      { first: 20_000, last: 20_009 },
      { first: 443, last: 443 },
    ],
    ownAddresses: own,
    services,
  })

test('row 10: by default a node dials neither itself nor loopback or link-local addresses', () => {
  const { fault } = policy()
  const refused: Record<string, RegExp> = {
    '127.0.0.1': /loopback/,
    '127.255.0.3': /loopback/,
    '::1': /loopback/,
    '0.0.0.0': /unspecified/,
    '0.1.2.3': /unspecified/,
    '::': /unspecified/,
    '169.254.169.254': /link-local/,
    'fe80::1': /link-local/,
    'febf::1': /link-local/,
    '224.0.0.1': /multicast/,
    'ff02::1': /multicast/,
    '255.255.255.255': /broadcast/,
    '240.0.0.1': /reserved/,
    '198.51.100.7': /address of this edge node/,
    '2001:db8::7': /address of this edge node/,
    'fd00:ec2::254': /metadata/,
    '100.100.100.200': /metadata/,
    '168.63.129.16': /metadata/,
    nonsense: /not an address/,
    '127.1': /not an address/,
    '0177.0.0.1': /not an address/,
    'fe80::1%eth0': /not an address/,
  }
  for (const [address, reason] of Object.entries(refused))
    assert.match(fault(address, 8080) ?? 'allowed', reason, address)
  for (const address of ['10.0.0.1', '192.168.1.1', '172.16.0.1', '100.64.0.1', '203.0.113.1', 'fd00::1', '2600::1'])
    assert.equal(fault(address, 8080), undefined, address)
})

test('row 10: an IPv4 address in an IPv6 one is that IPv4 address', () => {
  const { fault } = policy()
  for (const address of [
    '::ffff:127.0.0.1',
    '::ffff:a9fe:a9fe',
    '64:ff9b::127.0.0.1',
    '64:ff9b::a9fe:a9fe',
    '64:ff9b:1::7f00:1',
    '2002:7f00:1::',
    '2002:a9fe:a9fe::1',
    '2001:0:4136:e378:8000:63bf:80ff:fffe',
    '2001:0:7f00:1::',
    '::127.0.0.1',
    '::a9fe:a9fe',
  ])
    assert.match(fault(address, 80) ?? 'allowed', /loopback|link-local/, address)
  for (const address of ['64:ff9b::203.0.113.1', '2002:cb00:7101::1'])
    assert.equal(fault(address, 80), undefined, address)
})

test("row 10: the operator's allowed networks override the defaults, and denied networks override both", () => {
  const { fault } = policy({
    allow: ['127.0.0.0/8', '10.0.0.0/8', '198.51.100.7/32'],
    deny: ['10.1.0.0/16', '127.0.0.9'],
  })
  assert.equal(fault('127.0.0.1', 8080), undefined)
  assert.equal(fault('198.51.100.7', 8080), undefined)
  assert.equal(fault('10.2.0.1', 8080), undefined)
  assert.match(fault('10.1.0.1', 8080) ?? '', /operator of the edge denies/)
  assert.match(fault('127.0.0.9', 8080) ?? '', /operator of the edge denies/)
  assert.match(fault('64:ff9b::10.1.0.1', 8080) ?? '', /operator of the edge denies/)
  assert.match(fault('::1', 8080) ?? '', /loopback/)
})

test("row 2: the node's own listeners are never an upstream, even if all addresses are allowed", () => {
  const { fault } = policy({ allow: ['0.0.0.0/0', '::/0'] })
  for (const address of [
    '127.0.0.1',
    '127.9.9.9',
    '0.0.0.0',
    '::1',
    '::',
    '198.51.100.7',
    '2001:db8::7',
    '::ffff:198.51.100.7',
  ])
    for (const port of [20_000, 20_009, 443])
      assert.match(fault(address, port) ?? 'allowed', /this edge node itself/, address)
  assert.equal(fault('127.0.0.1', 20_010), undefined)
  assert.equal(fault('203.0.113.1', 443), undefined, 'the same port elsewhere')
})

test('row 10: an address that the machine acquires later is denied from then on', () => {
  const own = ['198.51.100.7']
  const { fault, refresh } = policy({ own: () => own })
  assert.equal(refresh(), false)
  assert.equal(fault('203.0.113.9', 80), undefined)
  own.push('203.0.113.9')
  assert.equal(refresh(), true)
  assert.match(fault('203.0.113.9', 80) ?? '', /address of this edge node/)
  assert.equal(refresh(), false)
})

test('while the system cannot say what the addresses of this machine are, the last known ones count', () => {
  const own = ['198.51.100.7']
  let isSilent = false
  const { fault, refresh } = policy({
    own() {
      if (isSilent) throw new Error('too many open files')
      return own
    },
  })
  isSilent = true
  assert.equal(refresh(), false)
  assert.match(fault('198.51.100.7', 80) ?? '', /address of this edge node/)
  const untold = () => policy({ own: () => assert.fail('too many open files') })
  assert.throws(untold, /too many open files/, 'at the start')
})

test('row 10: the addresses of this machine are detected', () => {
  const { fault } = createUpstreamPolicy({ deny: networks(), allow: networks(), ownPorts: [] })
  for (const { address } of Object.values(networkInterfaces()).flatMap((all) => all ?? []))
    assert.ok(fault(address.replace(/%.*/, ''), 80), address)
})

const nats = { address: '10.0.0.5', ports: [4222, 8222] }

test('the ports of NATS are never an upstream, even if all addresses are allowed, and its host only if the operator allows it', () => {
  const byDefault = policy({ services: () => [nats] })
  assert.match(byDefault.fault('10.0.0.5', 4222) ?? 'allowed', /is a service of the control plane/)
  assert.match(byDefault.fault('10.0.0.5', 5432) ?? 'allowed', /is a host of the control plane/)
  assert.match(byDefault.fault('::ffff:10.0.0.5', 5432) ?? 'allowed', /is a host of the control plane/)
  assert.match(byDefault.fault('64:ff9b::10.0.0.5', 4222) ?? 'allowed', /is a service of the control plane/)
  assert.equal(byDefault.fault('10.0.0.6', 4222), undefined, 'another machine')
  const allowing = policy({ services: () => [nats], allow: ['10.0.0.0/8'] })
  for (const port of nats.ports)
    assert.match(allowing.fault('10.0.0.5', port) ?? 'allowed', /service of the control plane/)
  assert.equal(allowing.fault('10.0.0.5', 8080), undefined)
})

test('if NATS runs on the node itself, its ports are denied at every address of the node', () => {
  const { fault } = policy({
    services: () => [{ address: '127.0.0.1', ports: [4222] }],
    allow: ['0.0.0.0/0', '::/0'],
  })
  for (const address of ['127.0.0.1', '127.9.9.9', '0.0.0.0', '::1', '198.51.100.7', '2001:db8::7'])
    assert.match(fault(address, 4222) ?? 'allowed', /is a service of the control plane/, address)
  assert.equal(fault('127.0.0.1', 8080), undefined)
  assert.equal(fault('203.0.113.1', 4222), undefined, 'the same port elsewhere')
})

test('a new address of the control plane is denied from then on, and an old one no longer', () => {
  const services: Service[] = [{ address: '10.0.0.5', ports: [] }]
  const { fault, refresh } = policy({ services: () => services })
  assert.equal(refresh(), false)
  services[0] = { address: '10.0.0.6', ports: [] }
  assert.equal(refresh(), true)
  assert.match(fault('10.0.0.6', 443) ?? 'allowed', /is a host of the control plane/)
  assert.equal(fault('10.0.0.5', 443), undefined)
  assert.equal(refresh(), false)
})
