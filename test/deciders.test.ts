import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { many } from '../src/db/pool.ts'
import { sql } from '../src/db/sql.ts'
import { formatAddress, parseAddress } from '../src/kernel/ip/address.ts'
import { compareDeciders } from './deciders/compare.ts'
import { naive, ours } from './deciders/deciders.ts'
import { enormous, unreadable } from './deciders/unreadable.ts'
import { from, policyWith, restrict } from './harness/ip.ts'
import { sharedControlPlane } from './harness/shared_control_plane.ts'

const plane = await sharedControlPlane({ after })
const everything = [
  { action: 'allow', cidr: '0.0.0.0/0' },
  { action: 'allow', cidr: '::/0' },
] as const

test('requests, PostgreSQL and ten naive lines decide 20,000 generated cases alike', async () => {
  // Another seed every day: the drill and the days together see more than one list ever would.
  const seed = Number(process.env.GATEHOUSE_TEST_SEED ?? Math.floor(Date.now() / 86_400_000))
  const { cases, allowed, faults } = await compareDeciders(plane.db, { cases: 20_000, seed })
  assert.deepEqual(faults.slice(0, 3), [], `${faults.length} of ${cases} cases`)
  assert.ok(
    allowed > cases / 5 && allowed < (cases * 4) / 5,
    `${allowed} of ${cases} were allowed: too few of one kind`,
  )
})

test('every decider denies an unreadable address, even where every address is allowed', async () => {
  const texts = [...unreadable, ...enormous]
  const decisions = ours({ policies: [[...everything]], addresses: texts })
  const naively = naive([...everything])
  for (const [index, text] of texts.entries()) {
    assert.deepEqual(decisions[index], { allowed: false }, `we: ${JSON.stringify(text)}`)
    assert.equal(naively(text), false, `naive: ${JSON.stringify(text)}`)
  }
})

test('unreadable addresses never reach PostgreSQL, which would accept some of them', async () => {
  const decide = (ip: string | null) =>
    many<{ allowed: boolean }>(plane.db, sql`select coalesce('0.0.0.0/0'::inet >>= ${ip}::inet, false) as allowed`)
  assert.deepEqual(await decide('012.1.2.3'), [{ allowed: true }], 'the reason for parsing first')
  for (const text of unreadable) {
    const address = parseAddress(text)
    assert.deepEqual(await decide(address ? formatAddress(address) : null), [{ allowed: false }], JSON.stringify(text))
  }
})

test('POST /ip_checks never allows an unreadable address, with or without restrictions', async () => {
  const admin = await plane.newAccount()
  const ip_policy_ids = [await policyWith(admin, 'allow 0.0.0.0/0', 'allow ::/0')]
  await restrict(admin, { type: 'agent', enforced: true, ip_policy_ids })
  await restrict(admin, { type: 'endpoints', ip_policy_ids })
  for (const type of ['agent', 'endpoints', 'dashboard']) {
    assert.equal((await admin('POST', '/ip_checks', { type, ip: '10.0.0.1' })).body.allowed, true)
    for (const ip of [...unreadable, ...enormous]) {
      const { status, body } = await admin('POST', '/ip_checks', { type, ip })
      if (status === 200) assert.equal(body.allowed, false, JSON.stringify(ip))
      else assert.equal(`${status} ${body.details.field}`, '400 ip', JSON.stringify(ip))
    }
    for (const ip of [null, 1, 167772161, true, ['10.0.0.1'], { ip: '10.0.0.1' }])
      assert.equal((await admin('POST', '/ip_checks', { type, ip })).status, 400, JSON.stringify(ip))
  }
})

test('an api restriction that allows every address refuses a call from an unreadable address', async () => {
  const admin = await plane.newAccount()
  const ip_policy_ids = [await policyWith(admin, 'allow 0.0.0.0/0', 'allow ::/0')]
  await restrict(admin, { enforced: true, ip_policy_ids })
  assert.equal((await admin('GET', '/caller', undefined, from('10.0.0.1'))).status, 200)
  // A header has no edge whitespace and no line ends, and holds a list: those of the corpus that can arrive as one entry.
  const sendable = unreadable.filter((text) => /^[\x21-\x7e]*$/.test(text) && !text.includes(','))
  assert.ok(sendable.length > 60)
  for (const text of sendable)
    assert.equal((await admin('GET', '/caller', undefined, from(text))).body.error_code, 'ERR_IP_REFUSED', text)
})
