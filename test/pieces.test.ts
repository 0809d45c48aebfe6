import assert from 'node:assert/strict'
import { test } from 'node:test'
import { blobName, continueCut, cutPolicy, type Format } from '../src/distribution/pieces.ts'
import { policyFormat } from '../src/distribution/policy_file.ts'
import { ruleFormat } from '../src/distribution/rule_file.ts'
import { newUuid } from '../src/kernel/ids.ts'
import { checkedCidr } from '../src/kernel/ip/canonical_cidr.ts'
import type { Cidr } from '../src/kernel/ip/cidr.ts'
import { type CompiledPolicy, compilePolicy, type Rule } from '../src/kernel/ip/ranges.ts'
import { outermost } from '../src/kernel/ip/splice.ts'
import { seededRandom } from './deciders/cases.ts'
import { sized } from './harness/thorough.ts'

const account = newUuid()
/** Rules have no numbers that stay, so each is known by what it says. */
const idsOf = (rules: readonly Rule[]): Buffer =>
  Buffer.concat(
    rules.map(({ cidr, action }) =>
      Buffer.from(blobName(Buffer.from(JSON.stringify([cidr, action]))), 'hex').subarray(0, 16),
    ),
  )

const names = (policy: CompiledPolicy, format: Format, cut = cutPolicy(policy, format)) => ({
  4: cut[4].map(blobName),
  6: cut[6].map(blobName),
})

test('pieces that continue those of the policy before a change are those of the policy after it', (t) => {
  const seed = Number(process.env.GATEHOUSE_TEST_SEED ?? Date.now() % 1_000_000)
  const random = seededRandom(seed)
  const rangeOf = (index: number): string =>
    index % 2
      ? `${1 + (index >> 16)}.${(index >> 8) & 255}.${index & 255}.0/24`
      : `2001:db8:${(index >> 9).toString(16)}:${(index & 511).toString(16)}::/64`
  const rules = new Map<string, Rule>()
  const put = (range: string) => {
    rules.set(range, { cidr: checkedCidr(range), action: random(2) ? 'allow' : 'deny' })
  }
  for (let index = 0; index < 40_000; index++) put(rangeOf(index))
  const compiled = () => {
    const list = [...rules.values()]
    return { policy: compilePolicy(list), rules: ruleFormat(account, idsOf(list)) }
  }
  let { policy, rules: format } = compiled()
  let cuts = { decisions: cutPolicy(policy, policyFormat), rules: cutPolicy(policy, format) }
  assert.ok(cuts.decisions[4].length > 3 && cuts.rules[6].length > 3)
  for (let step = 0; step < sized(12, 500); step++) {
    const changed: Cidr[] = []
    for (let edits = 1 + random(4); edits > 0; edits--) {
      // Single rules, both ends of a family, whole blocks with hundreds of rules, and at times everything.
      const index = random(40_000)
      const around = [
        rangeOf(index),
        rangeOf(index),
        '0.0.0.0/8',
        '255.255.255.255/32',
        'ffff::/16',
        `1.${random(256)}.0.0/16`,
        '2001:db8::/33',
      ]
      const range = random(40)
        ? (around[random(around.length)] as string)
        : (['0.0.0.0/0', '::/0'][random(2)] as string)
      if (rules.has(range) && random(3)) rules.delete(range)
      else put(range)
      changed.push(checkedCidr(range))
    }
    ;({ policy, rules: format } = compiled())
    const regions = outermost(changed)
    cuts = {
      decisions: continueCut(cuts.decisions, policy, regions, policyFormat),
      rules: continueCut(cuts.rules, policy, regions, format),
    }
    const place = `seed ${seed}, step ${step}`
    assert.deepEqual(names(policy, policyFormat, cuts.decisions), names(policy, policyFormat), place)
    assert.deepEqual(names(policy, format, cuts.rules), names(policy, format), place)
  }
  t.diagnostic(`seed ${seed}`)
})

test('a table that was empty, or becomes empty, is continued too', () => {
  const region = checkedCidr('10.0.0.0/8')
  const [none, some] = [compilePolicy([]), compilePolicy([{ cidr: region, action: 'allow' }])]
  const filled = continueCut(cutPolicy(none, policyFormat), some, [region], policyFormat)
  assert.deepEqual(filled, cutPolicy(some, policyFormat))
  assert.deepEqual(continueCut(filled, none, [region], policyFormat), cutPolicy(none, policyFormat))
})
