import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { sized } from '../../../test/harness/thorough.ts'
import { parseAddress } from './address.ts'
import { formatCidr, parseCidr, spelledCidr } from './cidr.ts'

const canonical = (text: string) => {
  const { cidr, fault } = parseCidr(text)
  return cidr ? formatCidr(cidr) : fault
}

test('a range has one spelling, always with its prefix length', () => {
  const spellings = [
    ['203.0.113.7', '203.0.113.7/32'],
    ['203.0.113.0/24', '203.0.113.0/24'],
    ['0.0.0.0/0', '0.0.0.0/0'],
    ['255.255.255.255/32', '255.255.255.255/32'],
    ['128.0.0.0/1', '128.0.0.0/1'],
    ['2001:DB8::1', '2001:db8::1/128'],
    ['2001:db8:0:0::/32', '2001:db8::/32'],
    ['2001:db8:8000::/33', '2001:db8:8000::/33'],
    ['::/0', '::/0'],
  ] as const
  for (const [text, expected] of spellings) assert.equal(canonical(text), expected, text)
})

test('an IPv4-mapped range is the IPv4 range', () => {
  assert.deepEqual(parseCidr('::ffff:10.1.0.0/112'), parseCidr('10.1.0.0/16'))
  assert.equal(canonical('::ffff:10.1.2.3'), '10.1.2.3/32')
  assert.equal(canonical('::ffff:10.1.2.3/128'), '10.1.2.3/32')
  assert.equal(canonical('::ffff:0:0/96'), '0.0.0.0/0')
  assert.equal(canonical('::ffff:10.1.2.3/104'), 'has host bits set; did you mean 10.0.0.0/8')
})

test('a range that is wider than the mapped addresses stays IPv6', () => {
  assert.equal(parseCidr('::/0').cidr?.network.family, 6)
  assert.equal(parseCidr('::/95').cidr?.network.family, 6)
  assert.equal(canonical('::fffe:0:0/95'), '::fffe:0:0/95')
  assert.equal(canonical('::ffff:0:0/95'), 'has host bits set; did you mean ::fffe:0:0/95')
})

test('host bits are an error that suggests the intended range', () => {
  assert.equal(canonical('10.1.2.3/16'), 'has host bits set; did you mean 10.1.0.0/16')
  assert.equal(canonical('10.1.2.3/0'), 'has host bits set; did you mean 0.0.0.0/0')
  assert.equal(canonical('255.255.255.255/31'), 'has host bits set; did you mean 255.255.255.254/31')
  assert.equal(canonical('2001:db8::1/64'), 'has host bits set; did you mean 2001:db8::/64')
  assert.equal(canonical('2001:db8:ffff::/33'), 'has host bits set; did you mean 2001:db8:8000::/33')
})

test('a prefix length is decimal, without leading zeros, and fits the family', () => {
  for (const length of [
    '33',
    '128',
    '08',
    '00',
    '-1',
    '+8',
    '8.0',
    '1e1',
    '0x8',
    ' 8',
    '8 ',
    '8\n',
    '',
    '8/8',
    '٨',
    '255.0.0.0',
  ]) {
    assert.equal(
      canonical(`10.0.0.0/${length}`),
      'must have a prefix length from 0 to 32, in decimal without leading zeros',
      JSON.stringify(length),
    )
  }
  assert.equal(canonical('::/129'), 'must have a prefix length from 0 to 128, in decimal without leading zeros')
})

test('text that is not strictly an address is not a range either', () => {
  const texts = [
    '',
    '/',
    '/8',
    '10.1/16',
    '10/8',
    '010.0.0.0/8',
    '10.0.0.0 /8',
    ' 10.0.0.0/8',
    'fe80::1%eth0',
    'fe80::%eth0/64',
    '[::]/0',
    'any',
  ]
  for (const text of texts) {
    assert.equal(canonical(text), 'must be an IPv4 or IPv6 address or CIDR range, such as 203.0.113.0/24', text)
  }
})

test('every address and prefix length is a range, or the error suggests the enclosing range, which is valid', () => {
  const addressAndLength = fc.oneof(fc.tuple(fc.ipV4(), fc.nat({ max: 32 })), fc.tuple(fc.ipV6(), fc.nat({ max: 128 })))
  fc.assert(
    fc.property(addressAndLength, ([address, length]) => {
      const { cidr, fault } = parseCidr(`${address}/${length}`)
      const text = cidr ? formatCidr(cidr) : fault.replace('has host bits set; did you mean ', '')
      assert.equal(canonical(text), text)
      const isAddressOfItsNetwork = cidr !== undefined
      if (isAddressOfItsNetwork) assert.deepEqual(parseAddress(address), cidr.network)
    }),
    { numRuns: sized(500, 2_000) },
  )
})

test('the spelling of a parsed text is that of its range', () => {
  for (const text of [
    '0.0.0.0/0',
    '10.0.0.0/8',
    '203.0.113.7',
    '203.0.113.7/32',
    '255.255.255.255',
    '::',
    '2001:DB8::/32',
    '::ffff:10.0.0.0/104',
    '::ffff:10.0.0.1',
    '::1.2.3.4',
  ]) {
    const { cidr } = parseCidr(text)
    assert.ok(cidr, text)
    assert.equal(spelledCidr(text, cidr), formatCidr(cidr), text)
  }
})
