// cspell:ignore fbff fdff feff febf
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseAddress } from './address.ts'
import { createDialPolicy, isThisMachine, type Service } from './dial_policy.ts'
import { compilePolicy } from './ranges.ts'

const none = compilePolicy([])
type Given = { deniesPrivate?: boolean; services?: () => readonly Service[]; own?: string[] }
const policy = ({ deniesPrivate = true, services, own = ['192.0.2.200'] }: Given = {}) =>
  createDialPolicy({
    deny: none,
    allow: none,
    ownPorts: [{ first: 20_000, last: 20_009 }],
    ownAddresses: () => own,
    ...(services && { services }),
    deniesPrivate,
    words: { self: 'control plane', operator: 'the operator' },
  })

/** The address before each network, its first, its last, and the one after it. */
const privateNetworks = [
  ['9.255.255.255', '10.0.0.0', '10.255.255.255', '11.0.0.0'],
  ['172.15.255.255', '172.16.0.0', '172.31.255.255', '172.32.0.0'],
  ['192.167.255.255', '192.168.0.0', '192.168.255.255', '192.169.0.0'],
  ['100.63.255.255', '100.64.0.0', '100.127.255.255', '100.128.0.0'],
  ['191.255.255.255', '192.0.0.0', '192.0.0.255', '192.0.1.0'],
  ['198.17.255.255', '198.18.0.0', '198.19.255.255', '198.20.0.0'],
  ['192.0.1.255', '192.0.2.0', '192.0.2.255', '192.0.3.0'],
  ['198.51.99.255', '198.51.100.0', '198.51.100.255', '198.51.101.0'],
  ['203.0.112.255', '203.0.113.0', '203.0.113.255', '203.0.114.0'],
  ['fbff:ffff::', 'fc00::', 'fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff', 'fe00::'],
  ['2001:db7:ffff::', '2001:db8::', '2001:db8:ffff:ffff:ffff:ffff:ffff:ffff', '2001:db9::'],
] as const

test('private networks are denied from their first address to their last, and only where that is wanted', () => {
  const [denying, open] = [policy(), policy({ deniesPrivate: false })]
  for (const [before, first, last, after] of privateNetworks) {
    for (const address of [first, last]) {
      assert.equal(denying.fault(address, 443), 'is in a private network', address)
      assert.equal(open.fault(address, 443), undefined, address)
    }
    for (const address of [before, after]) assert.equal(denying.fault(address, 443), undefined, address)
  }
  // What follows is link-local before it and multicast after it.
  for (const address of ['fec0::', 'feff:ffff:ffff:ffff:ffff:ffff:ffff:ffff'])
    assert.equal(denying.fault(address, 443), 'is in a private network', address)
})

test('defaults are denied from their first address to their last, with the reason of each', () => {
  const { fault } = policy()
  for (const [reason, first, last, outside] of [
    ['is a loopback address', '127.0.0.0', '127.255.255.255', '128.0.0.0'],
    ['is a loopback address', '::1', '::1', '1::'],
    ['is an unspecified address', '0.0.0.0', '0.255.255.255', '1.0.0.0'],
    ['is an unspecified address', '::', '::', '1::'],
    ['is a link-local address', '169.254.0.0', '169.254.255.255', '169.255.0.0'],
    ['is a link-local address', 'fe80::', 'febf:ffff:ffff:ffff:ffff:ffff:ffff:ffff', 'fe7f:ffff::'],
    ['is a multicast address', '224.0.0.0', '239.255.255.255', '223.255.255.255'],
    ['is a multicast address', 'ff00::', 'ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff', '1::'],
    ['is a reserved or broadcast address', '240.0.0.0', '255.255.255.255', '223.255.255.255'],
    ['is a metadata service', '168.63.129.16', '168.63.129.16', '168.63.129.17'],
    ['is a metadata service', 'fd20:ce::254', 'fd00:ec2::254', '1::'],
    ['is a metadata service', '100.100.100.200', '100.100.100.200', '100.128.0.0'],
  ] as const) {
    for (const address of [first, last]) assert.equal(fault(address, 443), reason, address)
    assert.equal(fault(outside, 443), undefined, outside)
  }
})

test("faults name the machine and its operator in the caller's words, and no address", () => {
  const { fault } = policy()
  assert.equal(fault('192.0.2.200', 20_009), 'is this control plane itself')
  assert.equal(fault('192.0.2.200', 20_010), 'is an address of this control plane')
  assert.equal(fault('127.0.0.1', 19_999), 'is a loopback address')
  assert.equal(fault('localhost', 80), 'is not an address')
})

test('an IPv4 address is found in each form of IPv6 that a translator or tunnel dials it for, and in no other', () => {
  const { fault } = policy({ deniesPrivate: false })
  for (const address of [
    ...['64:ff9b::127.0.0.1', '64:ff9b:1::127.0.0.1', '64:ff9b:1:7f00:0:100::', '64:ff9b:1:0:7f:0:100:0'],
    ...['2002:7f00:1::', '2001:0:7f00:1::', '2001::80ff:fffe', '::127.0.0.1', '::0.0.0.2'],
  ])
    assert.match(fault(address, 80) ?? 'allowed', /is a loopback address|is an unspecified address/, address)
  for (const address of [
    ...['64:ff9b:0:1::7f00:1', '64:ff9b::1:0:7f00:1', '64:ff9b:2::7f00:1', '64:ff9a::7f00:1', '2003:7f00:1::'],
    ...['2001:1:7f00:1::', '::1:0:7f00:1', '0:0:0:1::7f00:1', '0:1::7f00:1', '1::7f00:1'],
  ])
    assert.equal(fault(address, 80), undefined, address)
})

test('a service is denied at all of its ports, however its address is written, and changes count once they are read', () => {
  const services: Service[] = [
    { address: '::ffff:192.88.99.5', ports: [4222] },
    { address: '192.88.99.5', ports: [8222] },
    { address: 'nats.internal', ports: [5432] },
  ]
  const { fault, refresh } = policy({ services: () => services })
  for (const port of [4222, 8222]) assert.equal(fault('192.88.99.5', port), 'is a service of the control plane')
  assert.equal(fault('192.88.99.5', 5432), 'is a host of the control plane')
  const [first, second, third] = services as [Service, Service, Service]
  services.splice(0, 3, third, first, second)
  assert.equal(refresh(), false, 'in another order')
  services[1] = { address: '192.88.99.5', ports: [4223] }
  assert.equal(refresh(), true)
  assert.equal(fault('192.88.99.5', 4223), 'is a service of the control plane')
  assert.equal(fault('192.88.99.5', 4222), 'is a host of the control plane')
  assert.equal(fault('192.88.99.6', 4223), undefined)
})

test('only loopback and unspecified addresses always mean this machine', () => {
  for (const [text, expected] of [
    ['127.0.0.0', true],
    ['127.255.255.255', true],
    ['128.0.0.0', false],
    ['0.0.0.0', true],
    ['0.255.255.255', true],
    ['1.0.0.0', false],
    ['::', true],
    ['::1', true],
    ['::2', false],
    ['not an address', false],
  ] as const)
    assert.equal(isThisMachine(parseAddress(text)), expected, text)
})
