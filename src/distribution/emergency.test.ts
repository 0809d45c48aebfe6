import assert from 'node:assert/strict'
import { test } from 'node:test'
import { liftOf, longestOrderSeconds, newOrder, openOrder, sealOrder } from './emergency.ts'
import { createSigner, newSigningKey, seal, trustedKeys } from './signature.ts'

const now = Date.parse('2026-01-01T00:00:00.000Z')
const { publicKey, privateKey } = newSigningKey()
const signer = createSigner(publicKey, privateKey)
const keys = trustedKeys([publicKey])
const here = { cell: 'eu', now }
const order = (more: object = {}) =>
  newOrder(
    { id: 'abcdef012345', cells: [], refuse: ['203.0.113.0/24'], reason: 'flood', lifeSeconds: 3_600, ...more },
    now,
  )

test('an order is followed as it was signed, by nodes of its cells, until it ends', () => {
  const given = order({ refuse: ['203.0.113.7', '2001:DB8::/32', '203.0.113.7/32'] })
  assert.deepEqual(given.refuse, ['203.0.113.7/32', '2001:db8::/32'])
  assert.deepEqual(openOrder(sealOrder(given, signer), keys, here), { order: given })
  const end = Date.parse(given.expiresAt)
  assert.ok(openOrder(sealOrder(given, signer), keys, { ...here, now: end - 1 }).order)
  assert.match(
    `${openOrder(sealOrder(given, signer), keys, { ...here, now: end }).fault}`,
    /has ended at 2026-01-01T01:00/,
  )
  for (const [cells, isFollowed] of [
    [['eu'], true],
    [['us', 'eu'], true],
    [['us'], false],
    [['e'], false],
  ] as const)
    assert.equal(openOrder(sealOrder(order({ cells }), signer), keys, here).order !== undefined, isFollowed, `${cells}`)
  const lift = liftOf(given.id, [], now)
  assert.deepEqual(openOrder(sealOrder(lift, signer), keys, here), { order: lift })
})

test('nothing else is followed: another key, other bytes, a record, an order that never ends, lines in a range', () => {
  const other = newSigningKey()
  const fault = (text: string, trusted = keys) => {
    const { order: taken, fault } = openOrder(text, trusted, here)
    assert.equal(taken, undefined)
    return fault
  }
  const given = sealOrder(order(), signer)
  assert.match(`${fault(given, trustedKeys([]))}`, /not trusted here/)
  assert.match(`${fault(sealOrder(order(), createSigner(other.publicKey, other.privateKey)))}`, /not trusted here/)
  assert.match(`${fault(given.replace('203.0.113.0', '203.0.112.0'))}`, /wrong signature/)
  for (const text of ['', 'null', '[]', '{', '"x"']) assert.ok(fault(text))
  const signed = (emergency: unknown) => fault(seal({ emergency } as object, signer))
  const wrong: object[] = [
    { id: '../../etc' },
    { id: 'ABCDEF012345' },
    { refuse: ['203.0.113.0/24\n0.0.0.0/0'] },
    { refuse: ['203.0.113.1/24'] },
    { refuse: ['203.0.113.1'] },
    { refuse: ['2001:DB8::/32'] },
    { refuse: '203.0.113.0/24' },
    { refuse: [7] },
    { refuse: Array(10_001).fill('203.0.113.0/24') },
    { cells: ['EU'] },
    { cells: 'eu' },
    { cells: null },
    { reason: 'x'.repeat(201) },
    { reason: null },
    { expiresAt: 'tomorrow' },
    { expiresAt: null },
    { issuedAt: 7 },
  ]
  for (const more of wrong)
    assert.match(`${signed({ ...order(), ...more })}`, /is not an emergency order/, JSON.stringify(more).slice(0, 80))
  for (const nothing of [null, undefined, [], 'x', {}]) assert.match(`${signed(nothing)}`, /is not an emergency order/)
  assert.match(`${fault(seal({ key: 'tcp.x', generation: 1, value: null }, signer))}`, /is not an emergency order/)
  const tooLong = order({ lifeSeconds: longestOrderSeconds + 2 * 3_600 })
  assert.match(`${fault(sealOrder(tooLong, signer))}`, /too far ahead. Check the clock/)
})
