import assert from 'node:assert/strict'
import { test } from 'node:test'
import { parseAddress } from '../kernel/ip/address.ts'
import { checkedCidr } from '../kernel/ip/canonical_cidr.ts'
import { compilePolicy, lookup } from '../kernel/ip/ranges.ts'
import { createSlots, withoutUnused } from './rule_slots.ts'

const idOf = (index: number) => Buffer.alloc(16, index)

test('numbers that are not used any more are taken out, and every address keeps its rule', () => {
  const rules = ['10.0.0.0/8', '10.1.0.0/16', '2001:db8::/32'].map((cidr, index) => ({
    cidr: checkedCidr(cidr),
    action: index === 1 ? ('deny' as const) : ('allow' as const),
  }))
  let { ranges, ruleIds } = { ranges: compilePolicy(rules), ruleIds: Buffer.concat([1, 2, 3].map(idOf)) }
  const shift = 2_000
  const shifted = (verdicts: Int32Array) => verdicts.map((verdict) => verdict + Math.sign(verdict) * shift)
  ranges = {
    v4: { ...ranges.v4, verdicts: shifted(ranges.v4.verdicts) },
    v6: { ...ranges.v6, verdicts: shifted(ranges.v6.verdicts) },
  }
  ruleIds = Buffer.concat([Buffer.alloc(shift * 16), ruleIds])
  const compact = withoutUnused(ranges, ruleIds)
  assert.equal(compact.ruleIds.length, 3 * 16)
  for (const [ip, action, id] of [
    ['10.2.0.0', 'allow', 1],
    ['10.1.2.3', 'deny', 2],
    ['2001:db8::1', 'allow', 3],
  ] as const) {
    const match = lookup(compact.ranges, parseAddress(ip) ?? assert.fail())
    assert.equal(match?.action, action)
    assert.deepEqual(compact.ruleIds.subarray((match?.rule ?? 0) * 16, (match?.rule ?? 0) * 16 + 16), idOf(id))
  }
})

test('as long as most are used they stay', () => {
  const ranges = compilePolicy([{ cidr: checkedCidr('10.0.0.0/8'), action: 'allow' }])
  const ruleIds = Buffer.alloc(16 * 100)
  assert.equal(withoutUnused(ranges, ruleIds).ruleIds, ruleIds)
})

test('a rule is the same under two numbers, and not with the other action', () => {
  const slots = createSlots(Buffer.concat([idOf(1), idOf(2)]), Buffer.concat([idOf(2), idOf(3)]))
  assert.equal(slots.adopt(0), 0)
  const again = slots.adopt(1)
  assert.equal(again, 3)
  assert.equal(slots.adopt(1), 3)
  assert.equal(slots.adopt(-2), -4)
  assert.ok(slots.isSame(2, again))
  assert.ok(!slots.isSame(-2, again))
  assert.ok(!slots.isSame(1, again))
  assert.ok(!slots.isSame(0, again))
  assert.deepEqual(slots.ruleIds(), Buffer.concat([idOf(1), idOf(2), idOf(2), idOf(3)]))
})
