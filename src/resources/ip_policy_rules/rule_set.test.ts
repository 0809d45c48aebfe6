import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { policyWith, putRules } from '../../../test/harness/ip.ts'
import { poll } from '../../../test/harness/poll.ts'
import { sharedControlPlane } from '../../../test/harness/shared_control_plane.ts'

const plane = await sharedControlPlane({ after })
const admin = await plane.newAccount()

const asText = { headers: { accept: 'text/plain' } }
const getText = async (policy: string) => (await admin('GET', `/ip_policies/${policy}/rules`, undefined, asText)).text
const getRules = async (policy: string) => (await admin('GET', `/ip_policies/${policy}/rules`)).body.rules
const addRule = (policy: string, fields: object) =>
  admin('POST', '/ip_policy_rules', { ip_policy_id: policy, ...fields })

test('GET /ip_policies/{id}/rules shows every rule in order of creation', async () => {
  const lines = Array.from({ length: 4_321 }, (_, i) => `${i % 3 ? 'allow' : 'deny'} 10.0.${i >> 8}.${i & 255}/32`)
  const policy = await policyWith(admin, ...lines)
  await policyWith(admin, 'allow 192.0.2.1 # of another policy')
  const { body } = await admin('GET', `/ip_policies/${policy}/rules`)
  assert.equal(body.ip_policy_id, policy)
  assert.deepEqual(
    body.rules.map(({ action, cidr }: { action: string; cidr: string }) => `${action} ${cidr}`),
    lines,
  )
  assert.equal((await admin('GET', `/ip_policy_rules/${body.rules[0].id}`)).body.cidr, '10.0.0.0/32')
})

test('a policy without rules has none, and its text is empty', async () => {
  const policy = await policyWith(admin)
  assert.deepEqual(await getRules(policy), [])
  assert.equal(await getText(policy), '')
})

test('putting back the text that GET returned changes nothing: it has expiry and description, and metadata stays', async () => {
  const policy = await policyWith(admin, 'allow 10.0.0.0/8 # the office # 2', 'deny 2001:db8::/32')
  await addRule(policy, {
    cidr: '192.0.2.1',
    action: 'allow',
    expires_at: '2099-01-31T12:00:00.5Z',
    description: 'guest',
  })
  await addRule(policy, {
    cidr: '192.0.2.2',
    action: 'allow',
    expires_at: '2001-01-01T00:00:00Z',
    metadata: 'ticket 7',
  })
  const before = await getRules(policy)
  const text = await getText(policy)
  assert.deepEqual(text.split('\n'), [
    'allow 10.0.0.0/8 # the office # 2',
    'deny 2001:db8::/32',
    'allow 192.0.2.1/32 expires=2099-01-31T12:00:00.500Z # guest',
    'allow 192.0.2.2/32 expires=2001-01-01T00:00:00.000Z',
    '',
  ])
  const { body } = await putRules(admin, policy, [text])
  assert.deepEqual([body.rules, body.added, body.changed, body.removed], [4, 0, 0, 0])
  assert.deepEqual(await getRules(policy), before)
  assert.equal(before[3].metadata, 'ticket 7')
})

test('a line without expires= makes a rule permanent, and an invalid time is refused', async () => {
  const policy = await policyWith(admin, 'allow 10.0.0.0/8 expires=2099-01-01T00:00:00Z')
  assert.equal((await getRules(policy))[0].expires_at, '2099-01-01T00:00:00.000Z')
  assert.equal((await putRules(admin, policy, ['allow 10.0.0.0/8'])).body.changed, 1)
  assert.equal('expires_at' in (await getRules(policy))[0], false)
  for (const line of [
    'allow 10.0.0.0/8 expires=',
    'allow 10.0.0.0/8 expires=soon',
    'allow expires=2099-01-01T00:00:00Z',
  ])
    assert.equal((await putRules(admin, policy, [line])).body.details.field, 'line 1', line)
})

test('a line break in a description never becomes a rule of its own', async () => {
  const policy = await policyWith(admin)
  await addRule(policy, { cidr: '10.0.0.0/8', action: 'deny', description: 'x\r\nallow 0.0.0.0/0\n' })
  assert.equal(await getText(policy), 'deny 10.0.0.0/8 # x allow 0.0.0.0/0\n')
})

test('the format follows Accept, and is JSON when Accept prefers neither', async () => {
  const policy = await policyWith(admin, 'allow 10.0.0.0/8')
  const typeFor = async (accept: string) =>
    (await admin('GET', `/ip_policies/${policy}/rules`, undefined, { headers: { accept } })).headers
      .get('content-type')
      ?.split(';')[0]
  for (const accept of ['text/plain', 'text/plain;q=0.9, application/json;q=0.1', 'TEXT/PLAIN; q=1, */*;q=0.1'])
    assert.equal(await typeFor(accept), 'text/plain', accept)
  for (const accept of ['*/*', 'text/html', 'application/json, text/plain', 'text/plain;q=0', 'text/*', ', ;q=', 'q'])
    assert.equal(await typeFor(accept), 'application/json', accept)
  const refused = await admin('GET', `/ip_policies/${policy}/rules?x=1`, undefined, asText)
  assert.equal(refused.body.error_code, 'ERR_INVALID_FIELD', 'a refusal is always JSON')
})

test('expiry does not change a rule: its ETag stays the same', async () => {
  const policy = await policyWith(admin)
  const expires_at = new Date(Date.now() + 1_500).toISOString()
  const created = await addRule(policy, { cidr: '192.0.2.9', action: 'allow', expires_at })
  const ended = await poll(
    () => admin('GET', created.body.uri),
    ({ body }) => body.expired,
  )
  assert.equal(created.body.expired, false)
  assert.equal(ended.headers.get('etag'), created.headers.get('etag'))
  const ifMatch = { headers: { 'if-match': created.headers.get('etag') ?? '' } }
  assert.equal((await admin('PATCH', created.body.uri, { description: 'kept for the record' }, ifMatch)).status, 200)
})

test('a rule set is stored as it was sent, even with unusual characters in its texts, and the same set again changes nothing', async () => {
  const policy = await policyWith(admin)
  const texts = [
    '"quoted"',
    'back\\slash',
    '{a,b}',
    'NULL',
    'null',
    "it's",
    'line\nbreak\ttab',
    'ß 漢 😀',
    '\\"',
    ' spaces ',
  ]
  const rules = texts.map((text, index) => ({
    cidr: `2001:db8::${index + 1}/128`,
    action: 'allow',
    description: text,
    metadata: text,
  }))
  // PostgreSQL writes these two with a dotted tail.
  for (const cidr of ['::1.2.3.4/128', '::5.6.0.0/112'])
    rules.push({ cidr, action: 'deny', description: 'd', metadata: 'm' })
  const put = () => admin('PUT', `/ip_policies/${policy}/rules`, { rules })
  assert.equal((await put()).body.added, 12)
  const stored = await getRules(policy)
  assert.deepEqual(
    stored.map(({ description, metadata }: Record<string, string>) => [description, metadata]),
    rules.map(({ description, metadata }) => [description, metadata]),
  )
  const again = await put()
  assert.deepEqual([again.body.added, again.body.changed, again.body.removed], [0, 0, 0])
  assert.deepEqual(await getRules(policy), stored)
})

test('a change of a rule keeps its metadata unless the set says something about it', async () => {
  const policy = await policyWith(
    admin,
    'allow 10.0.0.1 metadata=one # before',
    'allow 10.0.0.2 metadata=two # before',
    'allow 10.0.0.3 metadata=three # before',
    'allow 10.0.0.4 metadata=four # before',
  )
  const before = await getRules(policy)
  const { body } = await putRules(admin, policy, [
    'allow 10.0.0.1 # after',
    'allow 10.0.0.2 metadata=changed # after',
    'allow 10.0.0.3 metadata= # before',
    'deny 10.0.0.4',
  ])
  assert.deepEqual([body.added, body.changed, body.removed], [1, 3, 1])
  const after: { id: string; description?: string; metadata?: string }[] = await getRules(policy)
  assert.deepEqual(
    after.map(({ description, metadata }) => [description, metadata]),
    [
      ['after', 'one'],
      ['after', 'changed'],
      ['before', undefined],
      [undefined, undefined],
    ],
  )
  for (const index of [0, 1, 2]) assert.equal(after[index]?.id, before[index].id)
})

test('a set is compared with as many rules as are read at once, and with one more or less', async () => {
  const policy = await policyWith(admin)
  const lines = Array.from({ length: 10_001 }, (_, i) => `allow 10.${i >> 16}.${(i >> 8) & 255}.${i & 255}`)
  for (const [count, added, removed] of [
    [5_000, 5_000, 0],
    [5_000, 0, 0],
    [4_999, 0, 1],
    [10_001, 5_002, 0],
    [10_000, 0, 1],
    [10_000, 0, 0],
  ] as const) {
    const { body } = await putRules(admin, policy, lines.slice(0, count))
    assert.deepEqual([body.rules, body.added, body.changed, body.removed], [count, added, 0, removed])
  }
})
