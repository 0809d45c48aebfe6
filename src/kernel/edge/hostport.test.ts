import assert from 'node:assert/strict'
import { test } from 'node:test'
import { domainToASCII } from 'node:url'
import fc from 'fast-check'
import { sized } from '../../../test/harness/thorough.ts'
import { canonicalHostport, formatHostport, hostportFault, isHostName, parseHostport } from './hostport.ts'

const letterOrDigit = fc.constantFrom(...'abcxyzABCXYZ0189')
const label = fc
  .tuple(letterOrDigit, fc.string({ unit: fc.constantFrom(...'aZ0-'), maxLength: 61 }), letterOrDigit)
  .map((parts) => parts.join(''))
const name = fc
  .tuple(fc.array(label, { maxLength: 3 }), fc.constantFrom('example', 'Internal', 'x1', 'a'))
  .map(([labels, last]) => [...labels, last].join('.'))
const port = fc.integer({ min: 1, max: 65_535 })

test('any name by the rules of DNS and any port is a hostport, in lower case', () => {
  fc.assert(
    fc.property(name, port, (host, number) => {
      assert.deepEqual(parseHostport(`${host}:${number}`), { host: host.toLowerCase(), port: number })
    }),
  )
})

test('accepted text is normalized to one spelling', () => {
  const anything = fc.oneof(
    fc.tuple(name, port).map(([host, number]) => `${host}:${number}`),
    fc.tuple(fc.ipV4(), port).map(([host, number]) => `${host}:${number}`),
    fc.tuple(fc.ipV6(), port).map(([host, number]) => `[${host}]:${number}`),
  )
  fc.assert(
    fc.property(anything, (text) => {
      const canonical = canonicalHostport(text)
      assert.equal(canonicalHostport(canonical), canonical)
      assert.equal(canonicalHostport(text.toUpperCase()), canonical)
    }),
  )
})

test('all accepted text is ASCII, and a host that URLs read the same way', () => {
  // From alphabets that come close: separators, lookalikes, and letters whose lower case is an ASCII letter.
  const near = fc.string({ unit: fc.constantFrom(...'aB09-._*:[]%@/ \\\u212a\u0130ſ。ａ\0\n'), maxLength: 20 })
  const text = fc.oneof(
    near,
    fc.tuple(near, port).map(([host, number]) => `${host}:${number}`),
    fc.string({ unit: 'binary' }),
  )
  fc.assert(
    fc.property(text, (sent) => {
      const parsed = parseHostport(sent)
      if (typeof parsed === 'string') return
      assert.match(sent, /^[\x21-\x7e]+$/)
      assert.equal(new URL(`http://${formatHostport(parsed)}/`).hostname, parsed.host)
    }),
    { numRuns: sized(5_000, 20_000) },
  )
})

test('a non-ASCII letter is not confused with its ASCII lower case', () => {
  assert.equal('\u212a'.toLowerCase(), 'k')
  assert.equal(typeof parseHostport('\u212aube.example:443'), 'string')
})

test('labels have 1 to 63 characters and no hyphen at either end, and all together 253', () => {
  const full = 'a'.repeat(63)
  const longest = `${full}.${full}.${full}.${'b'.repeat(61)}`
  assert.equal(longest.length, 253)
  for (const good of ['a', 'a-b', 'a--b', full, longest, `${full}.example`]) assert.equal(isHostName(good), true, good)
  for (const bad of ['', '.', 'a.', '.a', 'a..b', '-a', 'a-', '-', `${full}a`, `${longest}b`, 'a_b', 'a b', 'é'])
    assert.equal(isHostName(bad), false, bad)
})

test('a wildcard counts toward the length of a name', () => {
  const rest = (length: number) => `${'a.'.repeat(100)}${'b'.repeat(length - 200)}`
  assert.equal(typeof parseHostport(`*.${rest(251)}:443`, { wildcard: true }), 'object')
  assert.equal(typeof parseHostport(`*.${rest(252)}:443`, { wildcard: true }), 'string')
})

test('a name whose last label is a number is not a name: resolvers take it for an address', () => {
  for (const text of ['1', '1.2.3', '1.2.3.4.5', '256.1.1.1', 'a.1', '0x7f000001', '127.0.0.0x1', '0X7F.1'])
    assert.equal(typeof parseHostport(`${text}:80`), 'string', text)
  for (const text of ['1.a', '0x7f.example', '1.2.3.4a', '0xg', 'x0'])
    assert.equal(typeof parseHostport(`${text}:80`), 'object', text)
})

test('addresses are read strictly, and IPv6 stands in brackets', () => {
  assert.deepEqual(parseHostport('192.0.2.1:80'), { host: '192.0.2.1', port: 80 })
  assert.deepEqual(parseHostport('[2001:DB8:0:0::1]:80'), { host: '[2001:db8::1]', port: 80 })
  for (const text of [
    '192.0.2.01:80',
    '[192.0.2.1]:80',
    '2001:db8::1:80',
    '[]:80',
    '[fe80::1%1]:80',
    '[::1]80',
    '[::1',
  ])
    assert.equal(typeof parseHostport(text), 'string', text)
})

test('ports are from 1 to 65535, without a sign, a zero in front or a space', () => {
  for (const good of ['1', '65535']) assert.equal(typeof parseHostport(`a:${good}`), 'object', good)
  for (const bad of [
    '',
    '0',
    '65536',
    '99999',
    '100000',
    '080',
    '-1',
    '+1',
    '1.0',
    '1e3',
    '0x50',
    ' 80',
    '80 ',
    '80\n',
    '８０',
  ])
    assert.equal(typeof parseHostport(`a:${bad}`), 'string', bad)
})

test('a wildcard is the whole first label, where it is allowed at all', () => {
  assert.deepEqual(parseHostport('*.Example.com:443', { wildcard: true }), { host: '*.example.com', port: 443 })
  assert.equal(typeof parseHostport('*.example.com:443'), 'string')
  for (const bad of [
    '*',
    '*.',
    '*example.com',
    'a.*.com',
    '*.*.com',
    'a*.com',
    '**.com',
    '*.1.2.3.4',
    '*.-a',
    '*.[::1]',
  ])
    assert.equal(typeof parseHostport(`${bad}:443`, { wildcard: true }), 'string', bad)
})

test('rules can require names and a fixed port', () => {
  assert.equal(hostportFault('a.example:443', { nameOnly: true, port: 443 }), undefined)
  assert.equal(hostportFault('192.0.2.1:443', { nameOnly: true }), 'must have a host name, not an IP address')
  assert.equal(hostportFault('[::1]:443', { nameOnly: true }), 'must have a host name, not an IP address')
  assert.equal(hostportFault('192.0.2.1:443', {}), undefined)
  assert.equal(hostportFault('a.example:444', { port: 443 }), 'must use port 443')
  assert.match(hostportFault('nonsense', {}) ?? '', /^must be host:port/)
})

test('a text that is not a hostport has no canonical form', () => {
  assert.throws(() => canonicalHostport('nonsense'), /must be host:port/)
})

test('an international name is sent in its ASCII form', () => {
  assert.equal(typeof parseHostport('bücher.example:443'), 'string')
  assert.equal(typeof parseHostport(`${domainToASCII('bücher.example')}:443`), 'object')
})
