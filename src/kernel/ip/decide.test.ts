import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { sized } from '../../../test/harness/thorough.ts'
import { parseAddress } from './address.ts'
import { parseCidr } from './cidr.ts'
import { decide } from './decide.ts'
import { type Action, compilePolicy } from './ranges.ts'

function policy(...lines: string[]) {
  return compilePolicy(
    lines.map((line) => {
      const [action, range = ''] = line.split(' ')
      const { cidr, fault } = parseCidr(range)
      assert.ok(cidr, fault)
      return { action: action as Action, cidr }
    }),
  )
}
const office = policy('allow 10.0.0.0/8')
const partners = policy('allow 192.0.2.0/24', 'allow 10.1.0.0/16')
const abusers = policy('deny 198.51.100.0/24', 'deny 10.1.2.3')

test('an address that no rule matches is denied', () => {
  assert.deepEqual(decide([], parseAddress('10.1.2.3')), { allowed: false })
  assert.deepEqual(decide([office, abusers], parseAddress('203.0.113.1')), { allowed: false })
})

test('an address that could not be parsed is denied, even if all addresses are allowed', () => {
  const everyone = policy('allow 0.0.0.0/0', 'allow ::/0')
  assert.deepEqual(decide([everyone], parseAddress('1.2.3.4')), { allowed: true, policy: 0, rule: 0 })
  assert.deepEqual(decide([everyone], parseAddress('01.2.3.4')), { allowed: false })
})

test("one policy's deny wins over the others' allows, in any order", () => {
  assert.deepEqual(decide([office, partners, abusers], parseAddress('10.1.2.3')), {
    allowed: false,
    policy: 2,
    rule: 1,
  })
  assert.deepEqual(decide([abusers, office, partners], parseAddress('10.1.2.3')), {
    allowed: false,
    policy: 0,
    rule: 1,
  })
})

test('one allow in any of the policies is enough, and the first policy with one is named', () => {
  assert.deepEqual(decide([abusers, office, partners], parseAddress('192.0.2.1')), {
    allowed: true,
    policy: 2,
    rule: 0,
  })
  assert.deepEqual(decide([abusers, office, partners], parseAddress('10.1.0.1')), { allowed: true, policy: 1, rule: 0 })
})

test('every policy counts: removing one leaves the decision of the rest', () => {
  const line = fc.tuple(
    fc.constantFrom('allow', 'deny'),
    fc.constantFrom('10.0.0.0/8', '10.1.0.0/16', '10.1.2.3', '::/0'),
  )
  const policies = fc.array(
    fc.array(
      line.map((parts) => parts.join(' ')),
      { maxLength: 3 },
    ),
    { minLength: 1, maxLength: 4 },
  )
  fc.assert(
    fc.property(
      policies,
      fc.nat(),
      fc.constantFrom('10.1.2.3', '10.1.0.0', '10.2.0.0', '11.0.0.0', '::1'),
      (all, pick, from) => {
        const rest = all.toSpliced(pick % all.length, 1)
        for (const attached of [all, rest]) {
          const separately = decide(
            attached.map((lines) => policy(...lines)),
            parseAddress(from),
          )
          const asOne = decide([policy(...attached.flat())], parseAddress(from))
          assert.equal(separately.allowed, asOne.allowed)
          assert.equal(separately.rule === undefined, asOne.rule === undefined)
        }
      },
    ),
    { numRuns: sized(250, 1_000) },
  )
})
