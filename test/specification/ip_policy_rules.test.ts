import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import type { Answer } from '../harness/client.ts'
import { policyWith } from '../harness/ip.ts'
import { poll } from '../harness/poll.ts'
import { sharedControlPlane } from '../harness/shared_control_plane.ts'

const plane = await sharedControlPlane({ after })
const admin = await plane.newAccount()
const policy = await policyWith(admin)

const post = (fields: object, ip_policy_id = policy) =>
  admin('POST', '/ip_policy_rules', { ip_policy_id, action: 'allow', ...fields })
/** In its own policy, so that no two tests need the same range. */
const create = async (fields: object) => {
  const created = await post(fields, await policyWith(admin))
  assert.equal(created.status, 201, created.text)
  return created.body
}
function assertRefused({ status, body, text }: Answer, expected: number, code: string, field?: string): void {
  assert.equal(status, expected, text)
  assert.equal(body.error_code, code)
  assert.equal(body.details.field, field)
}

test('POST /ip_policy_rules: 201 with id, uri, created_at, description, metadata, cidr, action and ip_policy', async () => {
  const { status, body } = await post({ cidr: '10.0.0.0/8', action: 'deny', description: 'd', metadata: 'm' })
  assert.equal(status, 201)
  const { id, uri, created_at, ...rest } = body
  assert.match(id, /^ipr_[0-7][0-9a-z]{25}$/)
  assert.equal(uri, `https://api.gatehouse.test/ip_policy_rules/${id}`)
  assert.match(created_at, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
  assert.deepEqual(rest, {
    description: 'd',
    metadata: 'm',
    cidr: '10.0.0.0/8',
    action: 'deny',
    ip_policy: { id: policy, uri: `https://api.gatehouse.test/ip_policies/${policy}` },
  })
})

test('cidr, action and ip_policy_id are required on create', async () => {
  for (const field of ['cidr', 'action', 'ip_policy_id']) {
    const { [field]: _, ...fields }: Record<string, string> = {
      ip_policy_id: policy,
      action: 'allow',
      cidr: '11.0.0.0/8',
    }
    assertRefused(await admin('POST', '/ip_policy_rules', fields), 400, 'ERR_INVALID_FIELD', field)
  }
})

test('action is allow or deny', async () => {
  for (const action of ['Allow', 'permit', '', null, true])
    assertRefused(await post({ cidr: '11.0.0.0/8', action }), 400, 'ERR_INVALID_FIELD', 'action')
})

test('ip_policy_id must be a policy of this account', async () => {
  const foreign = (await (await plane.newAccount())('POST', '/ip_policies', {})).body.id
  for (const id of [foreign, `ipp_${'0'.repeat(26)}`, 'ipp_x'])
    assertRefused(await post({ cidr: '11.0.0.0/8' }, id), 400, 'ERR_INVALID_FIELD', 'ip_policy_id')
})

const canonical: [sent: string, shown: string, why: string][] = [
  ['192.0.2.1', '192.0.2.1/32', 'a bare address means /32'],
  ['2001:db8::1', '2001:db8::1/128', 'or /128'],
  ['0.0.0.0/0', '0.0.0.0/0', 'all of IPv4'],
  ['::/0', '::/0', 'all of IPv6'],
  ['255.255.255.255/32', '255.255.255.255/32', 'the last address'],
  ['2001:DB8:0:0:0:0:0:0/32', '2001:db8::/32', 'RFC 5952: lower case, the longest run of zeros as ::'],
  ['2001:0db8:0000:0001:0000:0000:0000:0001', '2001:db8:0:1::1/128', 'RFC 5952: no leading zeros'],
  ['2001:db8:0:1:1:1:1:1', '2001:db8:0:1:1:1:1:1/128', 'RFC 5952: one zero group alone is not ::'],
  ['1:0:0:2:0:0:3:4', '1::2:0:0:3:4/128', 'RFC 5952: the first run on a tie'],
  ['::1.2.3.4', '::102:304/128', 'a dotted tail is written in hexadecimal'],
  ['::ffff:10.1.2.3', '10.1.2.3/32', 'a mapped address is its IPv4 address'],
  ['::ffff:10.0.0.0/104', '10.0.0.0/8', 'a mapped range is its IPv4 range'],
  ['::FFFF:a00:0/104', '10.0.0.0/8', 'also in hexadecimal'],
  ['::ffff:0:0/96', '0.0.0.0/0', 'all mapped addresses'],
]
for (const [sent, shown, why] of canonical) {
  test(`cidr ${sent} is kept as ${shown}: ${why}`, async () => {
    const { cidr, uri } = await create({ cidr: sent })
    assert.equal(cidr, shown)
    assert.equal((await admin('GET', uri)).body.cidr, shown)
  })
}

const hostBits: [sent: string, suggested: string][] = [
  ['10.1.2.3/8', '10.0.0.0/8'],
  ['192.0.2.1/31', '192.0.2.0/31'],
  ['1.0.0.0/0', '0.0.0.0/0'],
  ['2001:db8::1/64', '2001:db8::/64'],
  ['::ffff:10.1.2.3/104', '10.0.0.0/8'],
  ['::ffff:0:0/95', '::fffe:0:0/95'],
]
for (const [sent, suggested] of hostBits) {
  test(`cidr ${sent} has host bits set: 400, suggesting ${suggested}`, async () => {
    const answer = await post({ cidr: sent })
    assertRefused(answer, 400, 'ERR_INVALID_FIELD', 'cidr')
    assert.ok(answer.body.msg.includes(`did you mean ${suggested}`), answer.body.msg)
  })
}

const unreadable: [kind: string, ...texts: string[]][] = [
  ['leading zeros', '010.0.0.0/8', '10.00.0.0', '10.0.0.0/08', '2001:db8::/032', '00001::'],
  ['short forms', '10', '10.1', '10.1/16', '10.0.0/24', '1', '0x0a000000', '167772160'],
  ['zone ids', 'fe80::1%eth0', 'fe80::1%1/128', 'fe80::%25eth0/64'],
  [
    'prefix lengths out of range',
    '10.0.0.0/33',
    '::/129',
    '10.0.0.0/-1',
    '10.0.0.0/',
    '10.0.0.0/8/8',
    '10.0.0.0/8.0',
    '::ffff:1.2.3.4/129',
  ],
  ['net masks and wildcards', '10.0.0.0/255.0.0.0', '10.*', '10.0.0.0-10.0.0.9'],
  [
    'ports, brackets and white space',
    '10.0.0.1:80',
    '[::1]',
    '[::1]:80',
    ' 10.0.0.1',
    '10.0.0.1 ',
    '10.0.0.0 /8',
    '10.0.0.1\n',
  ],
  [
    'what is no address at all',
    '',
    'localhost',
    '/8',
    ':::',
    '1::2::3',
    '1:2:3:4:5:6:7',
    '256.0.0.1',
    '१०.0.0.1',
    '10.0.0.1e0',
    'g::',
  ],
  ['numbers beyond any sense', `10.0.0.${'1'.repeat(40)}`, `${'1:'.repeat(31)}1`],
]
for (const [kind, ...texts] of unreadable) {
  test(`cidr with ${kind}: 400`, async () => {
    for (const cidr of texts) assertRefused(await post({ cidr }), 400, 'ERR_INVALID_FIELD', 'cidr')
    for (const cidr of [null, 10, ['10.0.0.0/8']]) assertRefused(await post({ cidr }), 400, 'ERR_INVALID_FIELD', 'cidr')
  })
}

test('cidr is unique within a policy, however it is written and with either action: 409', async () => {
  const [one, other] = [await policyWith(admin), await policyWith(admin)]
  assert.equal((await post({ cidr: '10.0.0.0/8' }, one)).status, 201)
  for (const cidr of ['10.0.0.0/8', '::ffff:10.0.0.0/104'])
    for (const action of ['allow', 'deny'])
      assertRefused(await post({ cidr, action }, one), 409, 'ERR_CIDR_TAKEN', 'cidr')
  assert.equal((await post({ cidr: '10.0.0.0/8' }, other)).status, 201, 'another policy may have it')
  const { body: narrower } = await post({ cidr: '10.0.0.0/9' }, one)
  assertRefused(await admin('PATCH', narrower.uri, { cidr: '10.0.0.0/8' }), 409, 'ERR_CIDR_TAKEN', 'cidr')
  assert.equal((await admin('GET', narrower.uri)).body.cidr, '10.0.0.0/9')
})

test('PATCH can change cidr, description and metadata; omitted fields keep their values', async () => {
  const created = await create({ cidr: '10.0.0.0/8', description: 'd', metadata: 'm' })
  const { status, body } = await admin('PATCH', created.uri, { cidr: '::FFFF:11.0.0.0/104', description: '' })
  assert.equal(status, 200)
  const { description, ...rest } = created
  assert.equal(description, 'd')
  assert.deepEqual(body, { ...rest, cidr: '11.0.0.0/8' })
  assert.deepEqual((await admin('PATCH', created.uri, {})).body, body)
})

test('action and ip_policy_id are not updatable', async () => {
  const { uri, action } = await create({ cidr: '10.0.0.0/8' })
  for (const [field, value] of [
    ['action', action === 'allow' ? 'deny' : 'allow'],
    ['action', 'other'],
    ['ip_policy_id', policy],
  ])
    assertRefused(await admin('PATCH', uri, { [field as string]: value }), 400, 'ERR_INVALID_FIELD', field)
  assert.equal((await admin('PATCH', uri, { action })).status, 200, 'it is what it was')
})

test('DELETE: 204, and then the rule is gone and its range free again', async () => {
  const { uri, ip_policy } = await create({ cidr: '10.0.0.0/8' })
  assert.equal((await admin('DELETE', uri)).status, 204)
  assertRefused(await admin('GET', uri), 404, 'ERR_NOT_FOUND')
  assert.equal((await post({ cidr: '10.0.0.0/8' }, ip_policy.id)).status, 201)
})

test('GET /ip_policy_rules: the list field is ip_policy_rules; the filter ip_policy_id is kept from page to page', async () => {
  const wanted = await policyWith(admin, ...Array.from({ length: 5 }, (_, i) => `allow 10.0.0.${i}`))
  await policyWith(admin, 'allow 10.0.0.0/8')
  const seen: string[] = []
  let next: string | null = `/ip_policy_rules?ip_policy_id=${wanted}&limit=2`
  while (next) {
    const { body }: Answer = await admin('GET', next)
    assert.ok(body.ip_policy_rules.length)
    for (const rule of body.ip_policy_rules) {
      assert.equal(rule.ip_policy.id, wanted)
      seen.push(rule.cidr)
    }
    next = body.next_page_uri
    if (next) assert.equal(new URL(next).searchParams.get('ip_policy_id'), wanted)
  }
  assert.deepEqual(seen, ['10.0.0.4/32', '10.0.0.3/32', '10.0.0.2/32', '10.0.0.1/32', '10.0.0.0/32'])
})

test('the filter ip_policy_id: a policy without rules gives an empty list, nonsense gets 400', async () => {
  const { body } = await admin('GET', `/ip_policy_rules?ip_policy_id=${await policyWith(admin)}`)
  assert.deepEqual(body.ip_policy_rules, [])
  assertRefused(await admin('GET', '/ip_policy_rules?ip_policy_id=x'), 400, 'ERR_INVALID_FIELD', 'ip_policy_id')
})

test('expires_at: shown in UTC with milliseconds, and `expired` beside it; both left out when it is not set', async () => {
  const { uri, ...rule } = await create({ cidr: '10.0.0.0/8', expires_at: '2099-01-31T12:00:00+02:00' })
  assert.equal(rule.expires_at, '2099-01-31T10:00:00.000Z')
  assert.equal(rule.expired, false)
  const { body: past } = await admin('PATCH', uri, { expires_at: '2001-01-31T12:00:00Z' })
  assert.equal(past.expired, true)
  for (const nothing of [null, '']) {
    const { body } = await admin('PATCH', uri, { expires_at: nothing })
    assert.ok(!('expires_at' in body) && !('expired' in body))
  }
  const outOfRange = ['0000-01-01T00:00:00Z', '0001-01-01T00:00:00+01:00', '9999-12-31T23:59:59-01:00']
  for (const expires_at of [
    ...outOfRange,
    'tomorrow',
    '2030-02-30T00:00:00Z',
    '2030-01-31',
    '2030-01-31 12:00:00Z',
    1_900_000_000,
  ])
    assertRefused(await admin('PATCH', uri, { expires_at }), 400, 'ERR_INVALID_FIELD', 'expires_at')
})

test('expires_at: an expired rule is still listed, as expired', async () => {
  const expires = Date.now() + 1_000
  const { uri, ip_policy } = await create({ cidr: '10.0.0.0/8', expires_at: new Date(expires).toISOString() })
  const { body: fresh } = await admin('GET', uri)
  // On a busy machine the answer may have taken until after that moment.
  if (Date.now() < expires) assert.equal(fresh.expired, false)
  await poll(
    () => admin('GET', uri),
    ({ body }) => body.expired,
  )
  const { body } = await admin('GET', `/ip_policy_rules?ip_policy_id=${ip_policy.id}`)
  assert.equal(body.ip_policy_rules[0].expired, true)
})
