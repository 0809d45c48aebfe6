import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Address, parseAddress } from '../kernel/ip/address.ts'
import { checkedCidr } from '../kernel/ip/canonical_cidr.ts'
import { compilePolicy } from '../kernel/ip/ranges.ts'
import { modeOf } from './module_mode.ts'
import { decideEach, isRefused, refusalIn, warningsIn } from './refusal.ts'
import { flipsOf } from './what_if.ts'

const policy = (...rules: string[]) =>
  compilePolicy(
    rules.map((rule) => {
      const [action, cidr = ''] = rule.split(' ')
      return { action: action === 'deny' ? 'deny' : 'allow', cidr: checkedCidr(cidr) }
    }),
  )
const office = policy('allow 10.0.0.0/8')
const noGuests = policy('deny 10.9.0.0/16')
const at = (text: string) => parseAddress(text) as Address
const decider = (name: string, enforced: boolean, ...ranges: (typeof office)[]) => ({
  name,
  enforced,
  policies: ranges.map((each) => ({ ranges: each })),
})

test('an address is refused by the first enforced decider that denies it, and the others that deny it warn', () => {
  const deciders = [
    decider('warns', false, policy()),
    decider('allows', true, office),
    decider('first', true, office, noGuests),
    decider('second', true),
    decider('warns too', false, noGuests),
    decider('allows unenforced', false, office),
  ]
  const guest = decideEach(deciders, at('10.9.0.1'))
  assert.deepEqual(
    guest.map(({ name, allowed, policy: index, rule }) => [name, allowed, index, rule]),
    [
      ['warns', false, undefined, undefined],
      ['allows', true, 0, 0],
      ['first', false, 1, 0],
      ['second', false, undefined, undefined],
      ['warns too', false, 0, 0],
      ['allows unenforced', true, 0, 0],
    ],
  )
  assert.equal(refusalIn(guest)?.name, 'first')
  assert.deepEqual(
    warningsIn(guest).map(({ name }) => name),
    ['warns', 'warns too'],
  )
  assert.equal(
    refusalIn(decideEach([decider('allows', true, office), decider('warns', false)], at('10.1.0.1'))),
    undefined,
  )
  assert.equal(refusalIn([]), undefined)
})

test('an address that could not be read is denied by every decider, even one that allows all', () => {
  const all = policy('allow 0.0.0.0/0', 'allow ::/0')
  assert.equal(refusalIn(decideEach([decider('all', true, all)], undefined))?.name, 'all')
  assert.equal(isRefused([[all]], undefined), true)
  assert.equal(isRefused([], undefined), false, 'nothing restricts it')
})

test('each enforced set of policies must allow an address', () => {
  assert.equal(isRefused([], at('192.0.2.1')), false)
  assert.equal(isRefused([[office]], at('10.9.0.1')), false)
  assert.equal(isRefused([[office, noGuests]], at('10.9.0.1')), true)
  assert.equal(isRefused([[office], [policy('allow 10.9.0.0/16')]], at('10.9.0.1')), false)
  assert.equal(isRefused([[office], [policy('allow 10.8.0.0/16')]], at('10.9.0.1')), true)
  assert.equal(isRefused([[]], at('10.9.0.1')), true, 'without a policy nothing is allowed')
})

test('a change shows the addresses that it would refuse or let in, and not those for which nothing changes', () => {
  const sightings = ['10.0.0.1', '10.9.0.1', '192.0.2.1', '198.51.100.1'].map((text) => ({ text, address: at(text) }))
  const { refused, allowed } = flipsOf(sightings, () => ({
    before: [[office]],
    after: [[office, noGuests, policy('allow 192.0.2.0/24')]],
  }))
  const texts = (found: typeof sightings) => found.map(({ text }) => text)
  assert.deepEqual([texts(refused), texts(allowed)], [['10.9.0.1'], ['192.0.2.1']])
})

test('a module only warns if it says so; any other setting refuses', () => {
  assert.equal(modeOf({ settings: { mode: 'warn' } }), 'warn')
  for (const settings of [{}, { mode: 'enforce' }, { mode: 'WARN' }, { mode: null }, { mode: ['warn'] }])
    assert.equal(modeOf({ settings }), 'enforce', JSON.stringify(settings))
})
