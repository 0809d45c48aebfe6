import assert from 'node:assert/strict'
import { isIP, isIPv6, SocketAddress } from 'node:net'
import { test } from 'node:test'
import fc from 'fast-check'
import { sized } from '../../../test/harness/thorough.ts'
import { formatAddress, parseAddress } from './address.ts'

const canonical = (text: string) => {
  const address = parseAddress(text)
  return address && formatAddress(address)
}

test('an IPv4 address is four decimal octets and nothing else', () => {
  assert.deepEqual(parseAddress('0.0.0.0'), { family: 4, value: 0 })
  assert.deepEqual(parseAddress('203.0.113.7'), { family: 4, value: 0xcb007107 })
  assert.deepEqual(parseAddress('255.255.255.255'), { family: 4, value: 0xffffffff })
})

test('an IPv6 address is read in each form of RFC 4291, in either case', () => {
  const spellings = [
    ['2001:db8:0:0:8:800:200c:417a', '2001:db8::8:800:200c:417a'],
    ['2001:0DB8:0000:0000:0008:0800:200C:417A', '2001:db8::8:800:200c:417a'],
    ['::', '::'],
    ['::1', '::1'],
    ['1::', '1::'],
    ['0:0:0:0:0:0:0:1', '::1'],
    ['1:2:3:4:5:6:7::', '1:2:3:4:5:6:7:0'],
    ['::2:3:4:5:6:7:8', '0:2:3:4:5:6:7:8'],
    ['64:ff9b::192.0.2.33', '64:ff9b::c000:221'],
    ['1:2:3:4:5:6:255.255.255.255', '1:2:3:4:5:6:ffff:ffff'],
    ['::1.2.3.4', '::102:304'],
  ] as const
  for (const [text, expected] of spellings) assert.equal(canonical(text), expected, text)
})

test('the canonical form shortens the longest run of zero groups, the first on a tie, and never a single one', () => {
  const spellings = [
    ['1:0:0:2:0:0:0:3', '1:0:0:2::3'],
    ['1:0:0:2:3:0:0:4', '1::2:3:0:0:4'],
    ['1:0:2:3:4:5:6:7', '1:0:2:3:4:5:6:7'],
    ['0:0:1:0:0:0:0:0', '0:0:1::'],
  ] as const
  for (const [text, expected] of spellings) assert.equal(canonical(text), expected, text)
})

test('an IPv4-mapped IPv6 address is the IPv4 address, however it is written', () => {
  for (const text of ['::ffff:10.1.2.3', '::FFFF:a01:203', '0:0:0:0:0:ffff:0a01:0203']) {
    assert.equal(canonical(text), '10.1.2.3', text)
  }
  assert.equal(canonical('::ffff:0:0'), '0.0.0.0')
  assert.equal(canonical('::fffe:10.1.2.3'), '::fffe:a01:203')
  assert.equal(canonical('::ffff:0:10.1.2.3'), '::ffff:0:a01:203')
})

test('text that other programs would guess at is not an address', () => {
  const octalAndShort = ['010.1.2.3', '10.1.2.03', '00.0.0.0', '0x7f.0.0.1', '127.1', '10.1', '2130706433', '1.2.3.4.5']
  const badOctets = ['256.0.0.1', '1.2.3.1000', '1..2.3', '.1.2.3', '1.2.3.', '1.2.3.-4', '1.2.3.+4', '１.2.3.4']
  const decorated = [
    ' 1.2.3.4',
    '1.2.3.4 ',
    '1.2.3.4\n',
    '1.2.3.4:80',
    '1.2.3.4/32',
    '[::1]',
    '[::1]:80',
    '"::1"',
    '::1/128',
  ]
  const zones = ['fe80::1%eth0', 'fe80::1%', '1.2.3.4%eth0']
  const badGroups = [
    '1:2:3:4:5:6:7',
    '1:2:3:4:5:6:7:8:9',
    '12345::',
    '00001::',
    'g::',
    '::-1',
    '1:2:3:4:5:6:7:',
    ':1:2:3:4:5:6:7',
  ]
  const badGaps = [
    ':',
    ':::',
    '1:::2',
    '1::2::3',
    '1::2:',
    '::1::',
    '1:2:3:4:5:6:7::8',
    '1:2:3:4::5:6:7:8',
    '::1:2:3:4:5:6:7:8',
  ]
  const badTails = [
    '::1.2.3',
    '::01.2.3.4',
    '::1.2.3.4:5',
    '1:2:3:4:5:6:7:1.2.3.4',
    '1:2:3:4:5:1.2.3.4',
    '::ffff:.1.2.3',
    '::a.2.3.4',
  ]
  const words = ['', 'unknown', 'localhost', 'null', '0'.repeat(10_000), ':'.repeat(10_000)]
  for (const text of [octalAndShort, badOctets, decorated, zones, badGroups, badGaps, badTails, words].flat()) {
    assert.equal(parseAddress(text), undefined, JSON.stringify(text.slice(0, 50)))
  }
})

const ipv4 = fc.integer({ min: 0, max: 0xffffffff }).map((value) => formatAddress({ family: 4, value }))
// Mostly zero groups, so that `::` gets its work.
const group = fc.oneof({ weight: 2, arbitrary: fc.constant(0) }, fc.integer({ min: 0, max: 0xffff }))
const ipv6 = fc.array(group, { minLength: 8, maxLength: 8 })
const anyAddress = fc.oneof(fc.ipV4(), fc.ipV6(), ipv4)

test('a formatted address reads back as the same address', () => {
  fc.assert(
    fc.property(anyAddress, (text) => {
      const address = parseAddress(text)
      assert.ok(address)
      assert.deepEqual(parseAddress(formatAddress(address)), address)
    }),
    { numRuns: sized(500, 2_000) },
  )
})

test('the canonical form is the one of the operating system', () => {
  fc.assert(
    fc.property(ipv6, (groups) => {
      const text = groups.map((value) => value.toString(16)).join(':')
      const system = new SocketAddress({ address: text, family: 'ipv6' }).address
      // inet_ntop writes the last 32 bits of ::/96 dotted; RFC 5952 wants that only for well-known prefixes.
      fc.pre(!system.includes('.'))
      assert.equal(canonical(text), system)
    }),
    { numRuns: sized(500, 2_000) },
  )
})

test('an address is exactly what Node accepts as one without a zone', () => {
  const piece = fc.constantFrom(
    ':',
    '::',
    '.',
    '0',
    '1',
    '01',
    '255',
    '256',
    'ffff',
    'FFFF',
    'fffff',
    '1.2.3.4',
    '%',
    '/',
    ' ',
  )
  const almost = fc.array(piece, { maxLength: 17 }).map((pieces) => pieces.join(''))
  const groups = fc
    .array(fc.constantFrom('0', '1', 'ffff', 'ABC', '', '1.2.3.4'), { maxLength: 10 })
    .map((all) => all.join(':'))
  const mutated = fc
    .tuple(anyAddress, fc.nat({ max: 50 }), fc.constantFrom('', '0', '1', ':', '.', 'f', ' '))
    .map(([text, at, put]) => text.slice(0, at) + put + text.slice(at + 1))
  fc.assert(
    fc.property(fc.oneof(almost, groups, mutated, fc.string()), (text) => {
      fc.pre(!text.includes('%'))
      assert.equal(parseAddress(text) !== undefined, isIP(text) !== 0, text)
    }),
    { numRuns: sized(5_000, 20_000) },
  )
  assert.ok(isIPv6('fe80::1%eth0'), 'Node takes zones, so they have to stay out of this comparison')
})
