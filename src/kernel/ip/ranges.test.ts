import assert from 'node:assert/strict'
import { BlockList } from 'node:net'
import { test } from 'node:test'
import fc from 'fast-check'
import { sized } from '../../../test/harness/thorough.ts'
import { type Address, formatAddress, parseAddress } from './address.ts'
import { type Cidr, parseCidr } from './cidr.ts'
import { type Action, compilePolicy, lookup, type Match, type Rule } from './ranges.ts'

function rule(text: string): Rule {
  const [action, range = ''] = text.split(' ')
  const { cidr, fault } = parseCidr(range)
  assert.ok(cidr, fault)
  return { action: action as Action, cidr }
}

function address(text: string): Address {
  const parsed = parseAddress(text)
  assert.ok(parsed, text)
  return parsed
}

const answer = (rules: readonly string[], text: string): string => {
  const match = lookup(compilePolicy(rules.map(rule)), address(text))
  return match ? `${match.action} by ${match.rule}` : 'no match'
}

test('a policy without rules matches nothing', () => {
  for (const text of ['0.0.0.0', '255.255.255.255', '::', '::1']) assert.equal(answer([], text), 'no match')
})

test('a range matches from its first address to its last, and no other', () => {
  const rules = ['allow 10.1.0.0/16', 'allow 2001:db8:0:1::/64']
  assert.equal(answer(rules, '10.0.255.255'), 'no match')
  assert.equal(answer(rules, '10.1.0.0'), 'allow by 0')
  assert.equal(answer(rules, '10.1.255.255'), 'allow by 0')
  assert.equal(answer(rules, '10.2.0.0'), 'no match')
  assert.equal(answer(rules, '2001:db8::ffff:ffff:ffff:ffff'), 'no match')
  assert.equal(answer(rules, '2001:db8:0:1::'), 'allow by 1')
  assert.equal(answer(rules, '2001:db8:0:1:ffff:ffff:ffff:ffff'), 'allow by 1')
  assert.equal(answer(rules, '2001:db8:0:2::'), 'no match')
})

test('the ends of both address spaces can be matched', () => {
  for (const text of ['0.0.0.0', '127.255.255.255', '128.0.0.0', '255.255.255.255']) {
    assert.equal(answer(['allow 0.0.0.0/0'], text), 'allow by 0')
  }
  assert.equal(answer(['allow 255.255.255.255/32'], '255.255.255.255'), 'allow by 0')
  assert.equal(answer(['allow 255.255.255.255/32'], '255.255.255.254'), 'no match')
  assert.equal(answer(['allow 255.255.255.255/32'], '0.0.0.0'), 'no match')
  const last = 'ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff'
  for (const text of ['::', '7fff::', '8000::', last]) assert.equal(answer(['allow ::/0'], text), 'allow by 0')
  assert.equal(answer([`deny ${last}`, 'allow ffff::/16'], last), 'deny by 0')
  assert.equal(answer([`deny ${last}`, 'allow ffff::/16'], 'ffff::'), 'allow by 1')
  assert.equal(answer([`deny ${last}`], '::'), 'no match')
})

test('no IPv6 range matches an IPv4 address, and no IPv4 range an IPv6 address', () => {
  for (const range of ['::/0', '::/64', '::/95', '::fffe:0:0/95']) {
    assert.equal(answer([`allow ${range}`], '10.1.2.3'), 'no match', range)
    assert.equal(answer([`allow ${range}`], '::ffff:10.1.2.3'), 'no match', range)
  }
  for (const text of ['::', '::1', '::10.1.2.3', '64:ff9b::10.1.2.3', '2001:db8::']) {
    assert.equal(answer(['allow 0.0.0.0/0'], text), 'no match', text)
  }
})

test('a mapped address or range is matched as the IPv4 one', () => {
  assert.equal(answer(['deny 10.0.0.0/8'], '::ffff:10.1.2.3'), 'deny by 0')
  assert.equal(answer(['deny ::ffff:10.0.0.0/104'], '10.1.2.3'), 'deny by 0')
})

test('any deny wins over any allow, wider or narrower, earlier or later', () => {
  assert.equal(answer(['deny 10.0.0.0/8', 'allow 10.1.0.0/16'], '10.1.2.3'), 'deny by 0')
  assert.equal(answer(['allow 10.1.0.0/16', 'deny 10.0.0.0/8'], '10.1.2.3'), 'deny by 1')
  assert.equal(answer(['allow 10.0.0.0/8', 'deny 10.1.2.3'], '10.1.2.3'), 'deny by 1')
  assert.equal(answer(['allow 10.1.0.0/16', 'deny 10.1.0.0/16'], '10.1.2.3'), 'deny by 1')
  assert.equal(answer(['deny 10.0.0.0/8', 'allow 10.1.0.0/16', 'deny 10.1.2.0/24'], '10.1.3.1'), 'deny by 0')
})

test('the rule named is the most specific of the winning action, and the first of equals', () => {
  const nested = ['allow 10.0.0.0/8', 'allow 10.1.0.0/16', 'allow 10.1.2.0/24']
  assert.equal(answer(nested, '10.1.2.3'), 'allow by 2')
  assert.equal(answer(nested.toReversed(), '10.1.2.3'), 'allow by 0')
  assert.equal(answer(nested, '10.1.3.0'), 'allow by 1')
  assert.equal(answer(nested, '10.2.0.0'), 'allow by 0')
  assert.equal(answer(['deny 10.0.0.0/8', 'allow 10.1.2.3', 'deny 10.1.0.0/16'], '10.1.2.3'), 'deny by 2')
  assert.equal(answer(['allow 10.0.0.0/8', 'allow 10.0.0.0/8'], '10.1.2.3'), 'allow by 0')
  assert.equal(
    answer(['allow 10.0.0.0/8', 'deny 10.0.0.0/8', 'allow 10.0.0.0/8', 'deny 10.0.0.0/8'], '10.1.2.3'),
    'deny by 1',
  )
})

test('adjacent ranges each match their own addresses, with no gap', () => {
  const rules = ['allow 10.0.0.0/25', 'deny 10.0.0.128/25', 'allow 10.0.1.0/24']
  assert.equal(answer(rules, '10.0.0.127'), 'allow by 0')
  assert.equal(answer(rules, '10.0.0.128'), 'deny by 1')
  assert.equal(answer(rules, '10.0.0.255'), 'deny by 1')
  assert.equal(answer(rules, '10.0.1.0'), 'allow by 2')
})

test('adjacent addresses decided by one rule form one range', () => {
  const { v4 } = compilePolicy(
    ['deny 10.0.0.0/8', 'allow 10.1.0.0/16', 'allow 10.0.0.0/9', 'deny 10.0.0.0/8'].map(rule),
  )
  assert.deepEqual([...v4.starts], [0x0a000000, 0x0b000000])
  assert.deepEqual([...v4.verdicts], [-1, 0])
})

// A second opinion that shares no code with the compiler: bits as text, every rule looked at.
const bits = (of: Address) =>
  (of.family === 4 ? [of.value] : [of.w0, of.w1, of.w2, of.w3])
    .map((word) => word.toString(2).padStart(32, '0'))
    .join('')
const covers = ({ network, prefixLength }: Cidr, of: Address) =>
  network.family === of.family && bits(of).startsWith(bits(network).slice(0, prefixLength))
function naive(rules: readonly Rule[], of: Address): Match | undefined {
  const matching = rules.map((each, index) => ({ ...each, rule: index })).filter(({ cidr }) => covers(cidr, of))
  const denying = matching.filter(({ action }) => action === 'deny')
  const winners = denying.length > 0 ? denying : matching
  const best = winners.toSorted((a, b) => b.cidr.prefixLength - a.cidr.prefixLength)[0]
  return best && { action: best.action, rule: best.rule }
}

function fromWords(words: ArrayLike<number>): Address {
  const [w0 = 0, w1 = 0, w2 = 0, w3 = 0] = Array.from(words)
  return words.length === 1 ? { family: 4, value: w0 } : { family: 6, w0, w1, w2, w3 }
}
const fromBits = (text: string) => fromWords((text.match(/.{32}/g) ?? []).map((word) => Number.parseInt(word, 2)))

// Long runs of equal bits, so that ranges nest, repeat, touch each other and the ends of the address space.
const runs = (length: number) =>
  fc
    .array(fc.tuple(fc.constantFrom('0', '1'), fc.constantFrom(1, 2, 7, 8, 31, 32, 64, 128)), {
      minLength: 1,
      maxLength: 6,
    })
    .map((parts) =>
      parts
        .map(([bit, count]) => bit.repeat(count))
        .join('')
        .slice(0, length)
        .padEnd(length, '0'),
    )
const cidrOf = (length: number) =>
  fc
    .tuple(runs(length), fc.oneof(fc.nat({ max: length }), fc.constantFrom(0, 1, 8, 31, 32)))
    .map(([all, prefixLength]) => ({
      network: fromBits(all.slice(0, prefixLength).padEnd(length, '0')),
      prefixLength,
    }))
const anyRule: fc.Arbitrary<Rule> = fc.record({
  cidr: fc.oneof(cidrOf(32), cidrOf(128)),
  action: fc.constantFrom<Action>('allow', 'deny'),
})
const someRules = fc.array(anyRule, { maxLength: 12 })

/** First and last address of every range, the ones just outside, and the ends of both address spaces. */
function borders(rules: readonly Rule[]): Address[] {
  const around = rules.flatMap(({ cidr: { network, prefixLength } }) => {
    const length = network.family === 4 ? 32 : 128
    const first = BigInt(`0b${bits(network)}`)
    const last = first + (1n << BigInt(length - prefixLength)) - 1n
    return [first - 1n, first, last, last + 1n]
      .filter((value) => value >= 0n && value < 1n << BigInt(length))
      .map((value) => fromBits(value.toString(2).padStart(length, '0')))
  })
  return [...around, ...['0', '1'].flatMap((bit) => [fromBits(bit.repeat(32)), fromBits(bit.repeat(128))])]
}

test('the compiled policy agrees with checking every rule, at every boundary', () => {
  fc.assert(
    fc.property(someRules, (rules) => {
      const policy = compilePolicy(rules)
      for (const border of borders(rules)) assert.deepEqual(lookup(policy, border), naive(rules, border), bits(border))
    }),
    { numRuns: sized(750, 3_000) },
  )
})

test('a table is sorted without repetition, and no two neighbors have the same verdict', () => {
  fc.assert(
    fc.property(someRules, (rules) => {
      const { v4, v6 } = compilePolicy(rules)
      for (const [table, width] of [
        [v4, 1],
        [v6, 4],
      ] as const) {
        const verdicts = [...table.verdicts]
        assert.equal(table.starts.length, verdicts.length * width)
        const starts = verdicts.map((_, index) =>
          bits(fromWords(table.starts.subarray(index * width, (index + 1) * width))),
        )
        assert.deepEqual(starts, [...new Set(starts)].sort())
        assert.ok(verdicts.every((verdict, index) => verdict !== (verdicts[index - 1] ?? 0)))
      }
    }),
    { numRuns: sized(500, 2_000) },
  )
})

test('removing a rule changes the answers it decided, and no others', () => {
  fc.assert(
    fc.property(fc.array(anyRule, { minLength: 1, maxLength: 8 }), fc.nat(), (rules, pick) => {
      const removed = pick % rules.length
      const [before, after] = [compilePolicy(rules), compilePolicy(rules.toSpliced(removed, 1))]
      for (const border of borders(rules)) {
        const [was, is] = [lookup(before, border), lookup(after, border)]
        const nowNamed = is && rules[is.rule < removed ? is.rule : is.rule + 1]
        if (was?.rule !== removed) assert.equal(nowNamed, was && rules[was.rule])
        else if (is?.action === was.action) {
          // The next best of the same action: wider, or as wide and later.
          const [gone, next] = [rules[removed]?.cidr.prefixLength ?? 0, nowNamed?.cidr.prefixLength ?? 0]
          assert.ok(next < gone || (next === gone && is.rule >= removed))
        } else assert.ok(was.action === 'deny' || is === undefined, 'what only an allow decided has no deny behind it')
      }
    }),
    { numRuns: sized(500, 2_000) },
  )
})

test('net.BlockList agrees wherever it can be trusted', () => {
  fc.assert(
    fc.property(someRules, (rules) => {
      const policy = compilePolicy(rules)
      // One list for each family: a BlockList matches IPv4 addresses with IPv6 ranges such as ::/0, and the reverse.
      const lists = {
        allow: { 4: new BlockList(), 6: new BlockList() },
        deny: { 4: new BlockList(), 6: new BlockList() },
      }
      for (const { action, cidr } of rules) {
        const { family } = cidr.network
        lists[action][family].addSubnet(formatAddress(cidr.network), cidr.prefixLength, `ipv${family}`)
      }
      for (const border of borders(rules)) {
        const { family } = border
        // The border of some ranges is a mapped address, which parseAddress never yields.
        if (family === 6 && parseAddress(formatAddress(border))?.family === 4) continue
        const isListed = (action: Action) => lists[action][family].check(formatAddress(border), `ipv${family}`)
        const expected = isListed('deny') ? 'deny' : isListed('allow') ? 'allow' : undefined
        assert.equal(lookup(policy, border)?.action, expected, formatAddress(border))
      }
    }),
    { numRuns: sized(125, 500) },
  )
})

test('ten thousand nested, repeated and adjacent rules agree with checking every rule', () => {
  const rules = Array.from({ length: 10_000 }, (_, index): Rule => {
    const prefixLength = 32 - (index % 17)
    const value = Math.floor((Math.imul(index, 2654435761) >>> 0) / 2 ** (32 - prefixLength)) * 2 ** (32 - prefixLength)
    return { cidr: { network: { family: 4, value }, prefixLength }, action: index % 5 === 0 ? 'deny' : 'allow' }
  })
  const policy = compilePolicy(rules)
  for (const { cidr } of rules.slice(0, 20)) {
    assert.deepEqual(lookup(policy, cidr.network), naive(rules, cidr.network))
  }
})
