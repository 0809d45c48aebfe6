import assert from 'node:assert/strict'
import { test } from 'node:test'
import { seededRandom } from '../../test/deciders/cases.ts'
import { newUuid } from '../kernel/ids.ts'
import { checkedCidr } from '../kernel/ip/canonical_cidr.ts'
import { type Cidr, formatCidr } from '../kernel/ip/cidr.ts'
import type { DatedRule, DatedRules } from '../kernel/ip/ranges.ts'
import { outermost } from '../kernel/ip/splice.ts'
import { blobName, type Cut } from './pieces.ts'
import { wholeFile } from './policy_file.ts'
import { continueRuleList, cutRuleList, readRuleList, ruleListFault, ruleListLayout } from './rule_list.ts'

const accountId = newUuid()

const keys = new WeakMap<DatedRule, string>()
function keyOf(rule: DatedRule): string {
  const { network, prefixLength } = rule.cidr
  const { family, ...words } = network
  const key =
    keys.get(rule) ?? [family, ...Object.values(words), prefixLength].map((part) => `${part}`.padStart(10, '0')).join()
  keys.set(rule, key)
  return key
}

/** As the database returns them: by family and address, wider before narrower. */
function listOf(rules: Iterable<DatedRule>): DatedRules {
  const inOrder = [...rules].sort((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1))
  const ids = inOrder.map(({ cidr }) => Buffer.from(formatCidr(cidr).padEnd(16).slice(0, 16)))
  return { rules: inOrder, ruleIds: Buffer.concat(ids) }
}
const fileOf = (list: DatedRules): Buffer => wholeFile(cutRuleList(list), ruleListLayout(accountId)).bytes

const namesOf = (cut: Cut) => [...cut[4], ...cut[6]].map(blobName)

const nested = listOf([
  { cidr: checkedCidr('0.0.0.0/0'), action: 'deny' },
  { cidr: checkedCidr('10.0.0.0/8'), action: 'allow', expiresAt: Date.parse('9999-12-31T23:59:59.999Z') },
  { cidr: checkedCidr('10.0.0.0/32'), action: 'deny', expiresAt: 1 },
  { cidr: checkedCidr('255.255.255.255/32'), action: 'allow' },
  { cidr: checkedCidr('::/0'), action: 'allow' },
  { cidr: checkedCidr('2001:db8::/32'), action: 'deny', expiresAt: 2_000_000_000_000 },
])

test('a list of rules is read as it was written', () => {
  const file = fileOf(nested)
  assert.equal(ruleListFault(file), undefined)
  assert.deepEqual(readRuleList(file), { accountId, ...nested })
  assert.deepEqual(readRuleList(fileOf({ rules: [], ruleIds: Buffer.alloc(0) })).rules, [])
})

test('a file that is no list of rules is recognized', () => {
  const file = fileOf(nested)
  const changed = (at: number, value: number) => Buffer.from(file).fill(value, at, at + 1)
  for (const [bytes, reason] of [
    [Buffer.alloc(0), 'is not a list of rules'],
    [changed(3, 0x32), 'is not a list of rules'],
    [file.subarray(0, -1), 'has another length than it says'],
    [changed(23, 9), 'has another length than it says'],
    [changed(28 + 4, 33), 'has an unknown prefix length'],
    [changed(28 + 3, 1), 'has a range with host bits set'],
    [changed(28 + 5, 0), 'has an unknown action'],
    [changed(28 + 5, 3), 'has an unknown action'],
    [changed(28 + 2 * 28 + 4, 8), 'has ranges out of order'],
  ] as const)
    assert.equal(ruleListFault(bytes), reason)
})

test('pieces that continue those of the rules before a change are those of the rules after it', () => {
  const rules = new Map<string, DatedRule>()
  const seed = Number(process.env.GATEHOUSE_TEST_SEED ?? Date.now() % 1_000_000)
  const random = seededRandom(seed)
  const put = (range: string) =>
    rules.set(range, {
      cidr: checkedCidr(range),
      action: random(2) ? 'allow' : 'deny',
      ...(random(2) && { expiresAt: 1 + random(1_000_000) }),
    })
  // Many have the same first address, and differ in their length only.
  const rangeOf = () => {
    const [a, b, c] = [random(256), random(256), random(128) * 2]
    const ranges = [
      `10.${a}.${b}.${c}/31`,
      `10.${a}.${b}.${c}/32`,
      `10.${a}.${b}.0/24`,
      `2001:db8:${a}:${b}::/64`,
      `2001:db8:${a}:${b}::/96`,
      `2001:db8:${a}::/48`,
    ]
    return ranges[random(ranges.length)] as string
  }
  for (let index = 0; index < 60_000; index++) put(rangeOf())
  let cut = cutRuleList(listOf(rules.values()))
  assert.ok(cut[4].length > 1 && cut[6].length > 1)
  for (let step = 0; step < 5; step++) {
    const changed: Cidr[] = []
    for (let edits = 1 + random(4); edits > 0; edits--) {
      const range = random(8) ? rangeOf() : (['0.0.0.0/0', '::/0', '255.255.255.255/32'][random(3)] as string)
      if (rules.has(range) && random(2)) rules.delete(range)
      else put(range)
      changed.push(checkedCidr(range))
    }
    const whole = listOf(rules.values())
    cut = continueRuleList(cut, outermost(changed), whole)
    assert.deepEqual(namesOf(cut), namesOf(cutRuleList(whole)), `seed ${seed}, step ${step}`)
  }
})
