import assert from 'node:assert/strict'
import { test } from 'node:test'
import { loadScaledTimeout } from '../../../test/harness/load_scaled_timeout.ts'
import { formatAddress } from './address.ts'
import { parseCidr } from './cidr.ts'
import { type Action, compilePolicy } from './ranges.ts'
import { sourceAddress } from './source.ts'

function ranges(action: Action, ...texts: string[]) {
  return texts.map((text) => {
    const { cidr, fault } = parseCidr(text)
    assert.ok(cidr, fault)
    return { action, cidr }
  })
}
const none = compilePolicy([])
const proxies = compilePolicy(ranges('allow', '10.0.0.0/8', 'fe80::/10', '2001:db8::/32'))

function source(peer: string | undefined, forwardedFor?: readonly string[] | string, trusted = proxies) {
  const address = sourceAddress(peer, forwardedFor, trusted)
  return address && formatAddress(address)
}

test('a client that is not a trusted proxy counts as itself, even if it claims otherwise', () => {
  assert.equal(source('203.0.113.9', '192.0.2.1'), '203.0.113.9')
  assert.equal(source('203.0.113.9', '10.0.0.1'), '203.0.113.9')
  assert.equal(source('203.0.113.9', 'garbage'), '203.0.113.9')
  assert.equal(source('10.0.0.1', '192.0.2.1', none), '10.0.0.1')
})

test('a trusted proxy without the header is the source itself', () => {
  assert.equal(source('10.0.0.1'), '10.0.0.1')
  assert.equal(source('10.0.0.1', []), '10.0.0.1')
})

test('behind trusted proxies the source is the rightmost address that is not one of them', () => {
  assert.equal(source('10.0.0.1', '192.0.2.1'), '192.0.2.1')
  assert.equal(source('10.0.0.1', '192.0.2.1, 10.0.0.3, 10.0.0.2'), '192.0.2.1')
  assert.equal(source('10.0.0.1', 'forged, 10.9.9.9,\t192.0.2.1 ,10.0.0.2'), '192.0.2.1')
  assert.equal(source('10.0.0.1', '2001:db8::1'), '2001:db8::1')
  assert.equal(source('10.0.0.1', '192.0.2.1, 2001:DB8::1'), '192.0.2.1')
})

test('several header lines are one list', () => {
  assert.equal(source('10.0.0.1', ['198.51.100.1', '192.0.2.1, 10.0.0.3', '10.0.0.2']), '192.0.2.1')
  assert.equal(source('10.0.0.1', ['192.0.2.1', '']), undefined)
})

test('when all are trusted proxies the source is the leftmost', () => {
  assert.equal(source('10.0.0.1', '10.0.0.4, 10.0.0.3, 10.0.0.2'), '10.0.0.4')
})

test('an entry that is not exactly an address makes the source unknown', () => {
  const entries = [
    'unknown',
    '192.0.2.1:8080',
    '[2001:db8::1]',
    '[2001:db8::1]:80',
    '"192.0.2.1"',
    '',
    ' ',
    '010.0.0.2',
  ]
  for (const entry of [...entries, '10.2', 'fe80::1%eth0', '_hidden', '\u00a0192.0.2.1', '192.0.2.1 10.0.0.2']) {
    assert.equal(source('10.0.0.1', entry), undefined, entry)
    assert.equal(source('10.0.0.1', `192.0.2.1, ${entry}, 10.0.0.2`), undefined, entry)
    assert.equal(source('10.0.0.1', `${entry}, 192.0.2.1`), '192.0.2.1', `${entry} stands beyond the source`)
  }
})

test('an IPv4-mapped address is IPv4, as a peer and in the header', () => {
  assert.equal(source('::ffff:203.0.113.9', '192.0.2.1'), '203.0.113.9')
  assert.equal(source('::ffff:10.0.0.1', '192.0.2.1'), '192.0.2.1')
  assert.equal(source('10.0.0.1', '192.0.2.1, ::ffff:10.0.0.2'), '192.0.2.1')
})

test("the kernel's zone on a link-local peer is ignored", () => {
  assert.equal(source('fe80::1%eth0', undefined, none), 'fe80::1')
  assert.equal(source('fe80::1%eth0', '192.0.2.1'), '192.0.2.1')
})

test('without a usable peer address there is no source, and the header is ignored', () => {
  assert.equal(source(undefined, '192.0.2.1'), undefined)
  assert.equal(source('', '192.0.2.1'), undefined)
  assert.equal(source('unix', '192.0.2.1'), undefined)
})

test('a range denied in the list of proxies is not trusted', () => {
  const partly = compilePolicy([...ranges('allow', '10.0.0.0/8'), ...ranges('deny', '10.9.0.0/16')])
  assert.equal(source('10.0.0.1', '192.0.2.1, 10.9.0.1', partly), '10.9.0.1')
  assert.equal(source('10.9.0.1', '192.0.2.1', partly), '10.9.0.1')
})

test('an entry full of spaces costs no more than its length', () => {
  const start = performance.now()
  assert.equal(source('10.0.0.1', `1${' '.repeat(100_000)}1`), undefined)
  assert.ok(performance.now() - start < loadScaledTimeout(1_000))
})
