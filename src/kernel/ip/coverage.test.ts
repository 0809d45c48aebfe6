import assert from 'node:assert/strict'
import { test } from 'node:test'
import { randomBelow } from '../../../test/harness/random.ts'
import { printed, sized } from '../../../test/harness/thorough.ts'
import { formatCidr, parseCidr } from './cidr.ts'
import { type Coverage, findCovered, maxNamed } from './coverage.ts'
import { type Action, compilePolicy, type Rule } from './ranges.ts'

function rule(text: string): Rule {
  const [action, range = ''] = text.split(' ')
  const { cidr, fault } = parseCidr(range)
  assert.ok(cidr, fault)
  return { action: action as Action, cidr }
}
const covered = (...rules: string[]) =>
  [...findCovered(rules.map(rule))].sort(([a], [b]) => a - b).map(([index, { kind, by }]) => `${index} ${kind} ${by}`)

test('an allow rule that is wholly denied is shadowed, by one deny or by several together', () => {
  assert.deepEqual(covered('allow 10.1.0.0/16', 'deny 10.0.0.0/8'), ['0 shadowed 1'])
  assert.deepEqual(covered('allow 10.0.0.0/8', 'deny 10.0.0.0/8'), ['0 shadowed 1'])
  assert.deepEqual(covered('allow 10.0.0.0/8', 'deny 10.0.0.0/9', 'deny 10.128.0.0/9'), ['0 shadowed 1,2'])
  assert.deepEqual(covered('allow 10.0.0.0/8', 'deny 10.0.0.0/9', 'deny 10.128.0.0/10'), [])
  assert.deepEqual(covered('deny 10.1.0.0/16', 'allow 10.0.0.0/8'), [])
})

test('a rule inside a wider one of the same action is redundant', () => {
  assert.deepEqual(covered('deny 10.0.0.0/8', 'deny 10.1.0.0/16'), ['1 redundant 0'])
  assert.deepEqual(covered('allow 10.1.2.0/24', 'allow 10.0.0.0/8', 'allow 10.1.0.0/16'), [
    '0 redundant 1',
    '2 redundant 1',
  ])
  assert.deepEqual(covered('allow 2001:db8::/32', 'allow 2001:db8:1::/48'), ['1 redundant 0'])
})

test('a rule that narrower ones cover is subdivided, and they are redundant', () => {
  assert.deepEqual(covered('allow 10.0.0.0/8', 'allow 10.0.0.0/9', 'deny 10.128.0.0/9'), [
    '0 subdivided 1,2',
    '1 redundant 0',
  ])
  assert.deepEqual(covered('deny 10.0.0.0/8', 'deny 10.0.0.0/9', 'deny 10.128.0.0/9'), [
    '0 subdivided 1,2',
    '1 redundant 0',
    '2 redundant 0',
  ])
})

test('families do not cover each other, and both end where their addresses end', () => {
  assert.deepEqual(covered('deny ::/0', 'allow 10.0.0.0/8'), [])
  assert.deepEqual(covered('allow 0.0.0.0/0', 'deny 0.0.0.0/1', 'deny 128.0.0.0/1'), ['0 shadowed 1,2'])
  assert.deepEqual(covered('allow ::/0', 'deny ::/1', 'deny 8000::/1'), ['0 shadowed 1,2'])
  assert.deepEqual(covered('allow 0.0.0.0/0', 'deny 128.0.0.0/1'), [])
})

/*
 * The oracle looks at every address of a small space and every rule, and shares no code with the sweep. The space is at
 * either end of a family, so that the first and the last address are in it.
 */
const bits = 6
const spaces = ['0.0.0.0', '255.255.255.192', '::', 'ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffc0'] as const
type Drawn = { action: Action; first: number; length: number }

function drawRules(): Drawn[] {
  const drawn = Array.from({ length: randomBelow(20) + 1 }, (): Drawn => {
    const narrowness = randomBelow(bits + 1)
    const length = 2 ** (bits - narrowness)
    return { action: randomBelow(2) === 0 ? 'allow' : 'deny', first: randomBelow(2 ** narrowness) * length, length }
  })
  // A policy has each range once.
  return [...new Map(drawn.map((rule) => [`${rule.first} ${rule.length}`, rule])).values()]
}
function toRule({ action, first, length }: Drawn, space: string): Rule {
  const { cidr } = parseCidr(space)
  assert.ok(cidr)
  const { network } = cidr
  const prefixLength = cidr.prefixLength - Math.log2(length)
  return network.family === 4
    ? { action, cidr: { network: { family: 4, value: network.value + first }, prefixLength } }
    : { action, cidr: { network: { ...network, w3: network.w3 + first }, prefixLength } }
}

const matches = ({ first, length }: Drawn, address: number) => address >= first && address < first + length
const addresses = Array.from({ length: 2 ** bits }, (_, index) => index)
const inside = (rule: Drawn) => addresses.filter((address) => matches(rule, address))
const isInside = (inner: Drawn, outer: Drawn) => inside(inner).every((address) => matches(outer, address))
const isDenied = (rules: readonly Drawn[], address: number) =>
  rules.some((rule) => rule.action === 'deny' && matches(rule, address))
const decisionOn = (rules: readonly Drawn[], address: number) =>
  isDenied(rules, address) ? 'deny' : rules.some((rule) => matches(rule, address)) ? 'allow' : 'none'
/** The most specific match of the winning action. */
function deciderOf(rules: readonly Drawn[], address: number): Drawn | undefined {
  const matching = rules.filter((rule) => matches(rule, address))
  const winners = isDenied(rules, address) ? matching.filter(({ action }) => action === 'deny') : matching
  return winners.toSorted((a, b) => a.length - b.length)[0]
}
/** Those that no other of them contains, by address. */
const widest = (some: readonly Drawn[]) =>
  some
    .filter((rule) => !some.some((other) => other !== rule && isInside(rule, other)))
    .toSorted((a, b) => a.first - b.first)

function expected(rules: readonly Drawn[], rule: Drawn): { kind: Coverage['kind']; by: Drawn[] } | undefined {
  const meeting = rules.filter((other) => other !== rule && inside(rule).some((address) => matches(other, address)))
  if (rule.action === 'allow' && inside(rule).every((address) => isDenied(rules, address)))
    return { kind: 'shadowed', by: widest(meeting.filter(({ action }) => action === 'deny')) }
  const wider = meeting.filter((other) => other.action === rule.action && isInside(rule, other))
  if (wider.length > 0) return { kind: 'redundant', by: widest(wider) }
  if (addresses.some((address) => deciderOf(rules, address) === rule)) return undefined
  const narrower = meeting.filter(
    (other) => isInside(other, rule) && (rule.action === 'allow' || other.action === 'deny'),
  )
  return { kind: 'subdivided', by: widest(narrower) }
}

const policies = sized(250, 1_000)
test(`${printed(policies)} random policies: the same rules, and the same names, as looking at every address`, (t) => {
  const seen = { shadowed: 0, redundant: 0, subdivided: 0, byMany: 0 }
  for (let policy = 0; policy < policies; policy++) {
    const drawn = drawRules()
    const space = spaces[randomBelow(spaces.length)] as string
    const rules = drawn.map((each) => toRule(each, space))
    const found = findCovered(rules)
    const shown = () => rules.map(({ action, cidr }, index) => `${index} ${action} ${formatCidr(cidr)}`).join(', ')
    for (const [index, rule] of drawn.entries()) {
      const want = expected(drawn, rule)
      const got = found.get(index)
      assert.deepEqual(
        got && { kind: got.kind, by: got.by, count: got.count },
        want && { kind: want.kind, by: want.by.map((each) => drawn.indexOf(each)), count: want.by.length },
        `rule ${index} of ${shown()}`,
      )
      if (want) seen[want.kind]++
      if (want && want.by.length > 1) seen.byMany++
    }
    const kept = drawn.filter((_, index) => !['shadowed', 'redundant'].includes(found.get(index)?.kind ?? ''))
    for (const address of addresses)
      assert.equal(decisionOn(kept, address), decisionOn(drawn, address), `${address} of ${shown()}`)
    assert.equal(findCovered(kept.map((each) => toRule(each, space))).size, 0, `what is left of ${shown()}`)
  }
  t.diagnostic(`rules found: ${JSON.stringify(seen)}`)
  for (const count of Object.values(seen)) assert.ok(count > policies / 20, JSON.stringify(seen))
})

test('100,000 rules of any shape take well under a second', (t) => {
  const count = 100_000
  const shapes = {
    'one allow over denies without a gap': (index: number) =>
      index === 0
        ? 'allow 10.0.0.0/15'
        : `deny 10.${(index - 1) >> 16}.${((index - 1) >> 8) & 255}.${(index - 1) & 255}`,
    'ranges nested at random': (index: number) => {
      const prefixLength = 8 + (index % 25)
      const value = Math.floor(randomBelow(2 ** 32) / 2 ** (32 - prefixLength)) * 2 ** (32 - prefixLength)
      return `${index % 3 === 0 ? 'deny' : 'allow'} ${formatCidr({ network: { family: 4, value }, prefixLength })}`
    },
  }
  for (const [shape, of] of Object.entries(shapes)) {
    const lines = Array.from({ length: count }, (_, index) => of(index))
    const rules = [...new Map(lines.map((line) => [line.split(' ')[1], line])).values()].map(rule)
    const before = process.cpuUsage()
    const found = findCovered(rules)
    const { user, system } = process.cpuUsage(before)
    const compiling = process.cpuUsage()
    compilePolicy(rules)
    const compiled = process.cpuUsage(compiling)
    const [ms, compileMs] = [(user + system) / 1_000, (compiled.user + compiled.system) / 1_000]
    t.diagnostic(
      `${shape}: ${ms.toFixed()} ms of processor time, compiling ${compileMs.toFixed()} ms, ${found.size} found`,
    )
    assert.ok(ms < 2_000, `${shape} took ${ms} ms of processor time`)
    for (const { by } of found.values()) assert.ok(by.length <= maxNamed)
  }
})
