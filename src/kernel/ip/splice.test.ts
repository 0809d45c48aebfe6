import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { sized } from '../../../test/harness/thorough.ts'
import { checkedCidr } from './canonical_cidr.ts'
import { type Cidr, containsCidr, formatCidr } from './cidr.ts'
import { type Action, compilePolicy, type RangeTable, type Rule } from './ranges.ts'
import { boundsOf, outermost, splicePolicy, startsBelow, startsUpTo } from './splice.ts'

const cidrs = (...texts: string[]): Cidr[] => texts.map(checkedCidr)

test('only the outermost of nested ranges remain, in the order of their addresses', () => {
  const found = outermost(
    cidrs(
      ...['2001:db8::/64', '10.1.0.0/16', '2001:db8::/32', '10.0.0.0/8', '9.0.0.0/8', '10.0.0.0/8', '10.0.0.0/9'],
      ...['2001:db8:0:1::/64', '2001:db9::1:0:0:1', '2001:db9::', '11.0.0.0', '10.255.255.255'],
    ),
  )
  assert.deepEqual(found.map(formatCidr), [
    ...['9.0.0.0/8', '10.0.0.0/8', '11.0.0.0/32', '2001:db8::/32', '2001:db9::/128', '2001:db9::1:0:0:1/128'],
  ])
  assert.deepEqual(outermost([]), [])
})

test('a range ends before the next address, or with its family', () => {
  const words = (text: string) => {
    const { first, last, next } = boundsOf(checkedCidr(text))
    return [first, last, next].map((each) => each && [...each])
  }
  assert.deepEqual(words('10.0.0.0/8'), [[0x0a000000], [0x0affffff], [0x0b000000]])
  assert.deepEqual(words('255.0.0.0/8'), [[0xff000000], [0xffffffff], undefined])
  const all = 0xffffffff
  assert.deepEqual(words('2001:db8:0:1::/64'), [
    [0x20010db8, 1, 0, 0],
    [0x20010db8, 1, all, all],
    [0x20010db8, 2, 0, 0],
  ])
  assert.deepEqual(words('::/0'), [[0, 0, 0, 0], [all, all, all, all], undefined])
})

test('the ranges below an address are counted, with or without one that starts there', () => {
  const { v4, v6 } = compilePolicy(cidrs('10.0.0.0/8', '12.0.0.0/8', '::1:0/112').map(allow))
  const counts = (table: RangeTable, ...words: number[]) =>
    [startsBelow, startsUpTo].map((count) => count(table, Uint32Array.from(words), words.length))
  assert.deepEqual(counts(v4, 0x09ffffff), [0, 0])
  assert.deepEqual(counts(v4, 0x0a000000), [0, 1])
  assert.deepEqual(counts(v4, 0x0a000001), [1, 1])
  assert.deepEqual(counts(v4, 0x0c000000), [2, 3])
  assert.deepEqual(counts(v4, 0x0d000000), [3, 4])
  assert.deepEqual(counts(v4, 0xffffffff), [4, 4])
  assert.deepEqual(counts(v6, 0, 0, 0, 0x10000), [0, 1])
  assert.deepEqual(counts(v6, 0, 0, 1, 0), [2, 2])
})
const allow = (cidr: Cidr): Rule => ({ cidr, action: 'allow' })

// Ranges of a few addresses at both ends of each family and across a border of words, so that they nest and touch.
const bases = [
  ...['0.0.0.0/0', '0.0.0.0/28', '255.255.255.240/28', '::/0', '2001:db8::/30'],
  ...['ffff:ffff:ffff:ffff:ffff:ffff:ffff:fff0/124', '0:0:0:4::/62'],
]
const anyCidr = fc.tuple(fc.constantFrom(...bases), fc.nat(15), fc.nat(4)).map(([base, bits, length]): Cidr => {
  const { network, prefixLength } = checkedCidr(base)
  const ends = prefixLength + length
  const words = network.family === 4 ? [network.value] : [network.w0, network.w1, network.w2, network.w3]
  const shift = BigInt(words.length * 32 - ends)
  const value = words.reduce((sum, word) => (sum << 32n) | BigInt(word), 0n) | (BigInt(bits >>> (4 - length)) << shift)
  const [w3 = 0, w2 = 0, w1 = 0, w0 = 0] = [0n, 32n, 64n, 96n].map((by) => Number((value >> by) & 0xffffffffn))
  return {
    network: network.family === 4 ? { family: 4, value: w3 } : { family: 6, w0, w1, w2, w3 },
    prefixLength: ends,
  }
})

type Known = Rule & { was: boolean; is: boolean }
const anyRule: fc.Arbitrary<Known> = fc.record({
  cidr: anyCidr,
  action: fc.constantFrom<Action>('allow', 'deny'),
  was: fc.boolean(),
  is: fc.boolean(),
})

test('a policy whose changed ranges are compiled again has the ranges that compiling all of it gives', () => {
  fc.assert(
    fc.property(fc.array(anyRule, { maxLength: 14 }), fc.array(anyCidr, { maxLength: 2 }), (rules, unchanged) => {
      const regions = outermost([...rules.filter(({ was, is }) => was !== is).map(({ cidr }) => cidr), ...unchanged])
      const touches = ({ cidr }: Rule) =>
        regions.some((region) => containsCidr(region, cidr) || containsCidr(cidr, region))
      const [before, after] = [rules.filter(({ was }) => was), rules.filter(({ is }) => is)]
      const part = after.filter(touches)
      // The numbers of the part come behind those of the whole.
      const numbered = [...before, ...part]
      const ruleOf = (verdict: number) => (verdict === 0 ? undefined : numbered[Math.abs(verdict) - 1])
      const spliced = splicePolicy(compilePolicy(before), {
        regions,
        part: compilePolicy(part),
        adopt: (verdict) => verdict + Math.sign(verdict) * before.length,
        isSame: (a, b) => Math.sign(a) === Math.sign(b) && ruleOf(a) === ruleOf(b),
      })
      const whole = compilePolicy(after)
      for (const family of ['v4', 'v6'] as const) {
        assert.deepEqual([...spliced[family].starts], [...whole[family].starts])
        assert.deepEqual(
          [...spliced[family].verdicts].map((verdict) => [Math.sign(verdict), ruleOf(verdict)]),
          [...whole[family].verdicts].map((verdict) => [Math.sign(verdict), after[Math.abs(verdict) - 1]]),
        )
      }
    }),
    { numRuns: sized(1_000, 20_000) },
  )
})

test('a family in which nothing has changed stays the table that it was', () => {
  const before = compilePolicy(cidrs('10.0.0.0/8', '2001:db8::/32').map(allow))
  const nothing = compilePolicy([])
  const spliced = (region: string) =>
    splicePolicy(before, {
      regions: cidrs(region),
      part: nothing,
      adopt: (verdict) => verdict,
      isSame: (a, b) => a === b,
    })
  assert.equal(spliced('10.0.0.0/8').v6, before.v6)
  assert.equal(spliced('2001:db8::/32').v4, before.v4)
  assert.deepEqual(spliced('10.0.0.0/8').v4.verdicts.length, 0)
})
