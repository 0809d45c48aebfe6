import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import type { Answer } from '../harness/client.ts'
import { policyWith } from '../harness/ip.ts'
import { loadScaledTimeout } from '../harness/load_scaled_timeout.ts'
import { sharedControlPlane } from '../harness/shared_control_plane.ts'

const plane = await sharedControlPlane({ after })
const admin = await plane.newAccount()

type Rule = { id: string; cidr: string; action: string; description?: string; metadata?: string; expires_at?: string }
const rulesOf = async (policy: string): Promise<Rule[]> =>
  (await admin('GET', `/ip_policy_rules?ip_policy_id=${policy}`)).body.ip_policy_rules
/** Sorted, as 'allow 10.0.0.0/8 # office'. */
const linesOf = async (policy: string) =>
  (await rulesOf(policy)).map(({ action, cidr, description = '' }) => `${action} ${cidr} # ${description}`).sort()
const putJson = (policy: string, rules: unknown) => admin('PUT', `/ip_policies/${policy}/rules`, { rules })
const putText = (policy: string, rawBody: string | Buffer, contentType = 'text/plain') =>
  admin('PUT', `/ip_policies/${policy}/rules`, undefined, { rawBody, contentType })
function assertRefused({ status, body, text }: Answer, field: string, words: RegExp): void {
  assert.equal(status, 400, text)
  assert.equal(body.error_code, 'ERR_INVALID_FIELD')
  assert.equal(body.details.field, field)
  assert.match(body.msg, words)
}

test('PUT /ip_policies/{id}/rules from JSON: 200 with how many were added, changed and removed', async () => {
  const policy = await policyWith(admin, 'allow 10.0.0.0/8 # stays', 'allow 11.0.0.0/8 # changes', 'deny 12.0.0.0/8')
  const { status, body } = await putJson(policy, [
    { cidr: '10.0.0.0/8', action: 'allow', description: 'stays' },
    { cidr: '11.0.0.0/8', action: 'allow', description: 'changed' },
    { cidr: '2001:DB8::/32', action: 'deny', metadata: 'm', expires_at: '2099-01-01T00:00:00Z' },
  ])
  assert.equal(status, 200)
  const uri = `https://api.gatehouse.test/ip_policies/${policy}`
  assert.deepEqual(body, { ip_policy: { id: policy, uri }, rules: 3, added: 1, changed: 1, removed: 1 })
  const expected = ['allow 10.0.0.0/8 # stays', 'allow 11.0.0.0/8 # changed', 'deny 2001:db8::/32 # ']
  assert.deepEqual(await linesOf(policy), expected)
  const added = (await rulesOf(policy)).find(({ cidr }) => cidr === '2001:db8::/32')
  assert.equal(added?.metadata, 'm')
  assert.equal(added?.expires_at, '2099-01-01T00:00:00.000Z')
})

test('from text/plain: one `allow|deny CIDR # description` a line', async () => {
  const policy = await policyWith(admin)
  const answer = await putText(policy, 'allow 10.0.0.0/8 # the office\ndeny 10.1.0.0/16\nallow ::1#tight\n')
  assert.equal(answer.status, 200, answer.text)
  assert.equal(answer.body.added, 3)
  const expected = ['allow 10.0.0.0/8 # the office', 'allow ::1/128 # tight', 'deny 10.1.0.0/16 # ']
  assert.deepEqual(await linesOf(policy), expected)
})

test('from text: comments, empty lines, CRLF, tabs, a last line without an end, and any charset parameter of UTF-8', async () => {
  const policy = await policyWith(admin)
  const text =
    '# our addresses\r\n\r\n   \r\n  # indented\r\nallow\t10.0.0.1\t#\tBüro # 2 \r\ndeny   10.0.0.2   \r\nallow 10.0.0.3 #'
  assert.equal((await putText(policy, text, 'text/plain; charset=utf-8')).status, 200)
  assert.deepEqual(await linesOf(policy), [
    'allow 10.0.0.1/32 # Büro # 2',
    'allow 10.0.0.3/32 # ',
    'deny 10.0.0.2/32 # ',
  ])
})

const badLines: [why: string, line: string, words: RegExp][] = [
  ['no action', '10.0.0.0/8', /must be 'allow CIDR' or 'deny CIDR'/],
  ['an unknown action', 'permit 10.0.0.0/8', /must be 'allow CIDR' or 'deny CIDR'/],
  ['an action in capitals', 'ALLOW 10.0.0.0/8', /must be 'allow CIDR' or 'deny CIDR'/],
  ['no range', 'allow', /must be 'allow CIDR' or 'deny CIDR'/],
  ['a range that is only a comment', 'allow # 10.0.0.0/8', /must be 'allow CIDR' or 'deny CIDR'/],
  ['two ranges', 'allow 10.0.0.0/8 11.0.0.0/8', /must be 'allow CIDR' or 'deny CIDR'/],
  ['host bits', 'allow 10.1.0.0/8', /did you mean 10\.0\.0\.0\/8/],
  ['leading zeros', 'allow 010.0.0.0/8', /IPv4 or IPv6/],
  ['a short form', 'allow 10.1/16', /IPv4 or IPv6/],
  ['a zone id', 'allow fe80::1%eth0', /IPv4 or IPv6/],
  ['a description of 256 bytes', `allow 10.0.0.0/8 # ${'ß'.repeat(128)}`, /at most 255 bytes/],
  ['a NUL', 'allow 10.0.0.0/8 # a\0b', /NUL/],
]
for (const [why, line, words] of badLines) {
  test(`from text: a line with ${why} rejects the whole set, names its number, and changes nothing`, async () => {
    const policy = await policyWith(admin, 'allow 192.0.2.1')
    assertRefused(
      await putText(policy, `allow 10.0.0.1\n# comments and empty lines count\n\n${line}\nallow 10.0.0.2`),
      'line 4',
      words,
    )
    assert.deepEqual(await linesOf(policy), ['allow 192.0.2.1/32 # '])
  })
}

test('from JSON: the error names the position of the entry, and nothing changes', async () => {
  const policy = await policyWith(admin, 'allow 192.0.2.1')
  const good = { cidr: '10.0.0.1', action: 'allow' }
  const refusals: [unknown, string, RegExp][] = [
    [{ cidr: '10.1.0.0/8', action: 'allow' }, 'rules[1].cidr', /did you mean 10\.0\.0\.0\/8/],
    [{ cidr: '10.0.0.2' }, 'rules[1].action', /required/],
    [{ action: 'allow' }, 'rules[1].cidr', /required/],
    [{ cidr: '10.0.0.2', action: 'maybe' }, 'rules[1].action', /allow, deny/],
    [{ cidr: '10.0.0.2', action: 'allow', id: 'x' }, 'rules[1].id', /not a known field/],
    [{ cidr: '10.0.0.2', action: 'allow', expires_at: 'soon' }, 'rules[1].expires_at', /RFC 3339/],
    [null, 'rules[1]', /object/],
  ]
  for (const [rule, field, words] of refusals) assertRefused(await putJson(policy, [good, rule, good]), field, words)
  assertRefused(await putJson(policy, {}), 'rules', /list/)
  assertRefused(await admin('PUT', `/ip_policies/${policy}/rules`, {}), 'rules', /required/)
  assert.deepEqual(await linesOf(policy), ['allow 192.0.2.1/32 # '])
})

test('a range listed twice is refused, in any spelling and with either action, and both positions are named', async () => {
  const policy = await policyWith(admin, 'allow 192.0.2.1')
  const text = await putText(policy, '# two\nallow 10.0.0.0/8\nallow 11.0.0.0/8\ndeny ::ffff:10.0.0.0/104\n')
  assertRefused(text, 'line 4', /repeats the range of line 2 \(10\.0\.0\.0\/8\)/)
  const json = await putJson(policy, [
    { cidr: '2001:DB8::1', action: 'allow' },
    { cidr: '2001:db8:0::1/128', action: 'allow' },
  ])
  assertRefused(json, 'rules[1].cidr', /repeats the range of rules\[0\]\.cidr \(2001:db8::1\/128\)/)
  assert.deepEqual(await linesOf(policy), ['allow 192.0.2.1/32 # '])
})

test('an empty set empties the policy', async () => {
  for (const put of [
    (policy: string) => putJson(policy, []),
    (policy: string) => putText(policy, ''),
    (policy: string) => putText(policy, '# nothing\n\n'),
  ]) {
    const policy = await policyWith(admin, 'allow 10.0.0.0/8')
    const { status, body } = await put(policy)
    assert.equal(status, 200)
    assert.deepEqual([body.rules, body.removed], [0, 1])
    assert.deepEqual(await rulesOf(policy), [])
  }
})

test('rules that stay keep their id; one whose action changes gets a new id', async () => {
  const policy = await policyWith(admin, 'allow 10.0.0.1', 'allow 10.0.0.2', 'allow 10.0.0.3')
  const before = new Map((await rulesOf(policy)).map(({ cidr, id }) => [cidr, id]))
  await putText(policy, 'allow 10.0.0.3 # described\ndeny 10.0.0.2\nallow 10.0.0.1\n')
  for (const { cidr, id } of await rulesOf(policy)) assert.equal(id === before.get(cidr), cidr !== '10.0.0.2/32', cidr)
})

test('repeating the same set changes nothing and leaves no audit event', async () => {
  const policy = await policyWith(admin, 'allow 10.0.0.1 # a')
  const { body } = await putText(policy, 'allow 10.0.0.1/32 # a')
  assert.deepEqual([body.rules, body.added, body.changed, body.removed], [1, 0, 0, 0])
  const { body: events } = await admin('GET', `/audit_events?resource_id=${policy}&operation=ip_policies.replace_rules`)
  assert.equal(events.audit_events.length, 1)
  assert.deepEqual(events.audit_events[0].after, { rules: 1, added: 1, changed: 0, removed: 0 })
})

test('100,001 rules are refused, and so are more than 1 MiB of JSON, and the policy stays as it was', async () => {
  const policy = await policyWith(admin, 'allow 192.0.2.1')
  const cidrs = Array.from({ length: 100_001 }, (_, i) => `10.${i >> 16}.${(i >> 8) & 255}.${i & 255}`)
  assertRefused(
    await putText(policy, cidrs.map((cidr) => `allow ${cidr}`).join('\n')),
    'line 100001',
    /limit of 100000 rules/,
  )
  const rules = cidrs.map((cidr) => ({ cidr, action: 'allow' }))
  const json = await putJson(policy, rules)
  assert.deepEqual([json.status, json.body.error_code], [413, 'ERR_BODY_TOO_LARGE'])
  assert.match(json.body.msg, /at most 1048576 bytes. Send larger bodies as text\/plain/)
  assert.deepEqual(await linesOf(policy), ['allow 192.0.2.1/32 # '])
})

test('another content type gets 415, text that is not UTF-8 gets 400', async () => {
  const policy = await policyWith(admin)
  assert.equal((await putText(policy, 'allow 10.0.0.1', 'text/csv')).status, 415)
  assertRefused(await putText(policy, Buffer.from('allow 10.0.0.1 # B\xfcro', 'latin1')), 'body', /UTF-8/)
})

test('no line, however long or hostile, keeps the service busy', async () => {
  const policy = await policyWith(admin)
  // Runs of spaces that a backtracking expression would try to split in every possible way: these two took four minutes.
  const spaces = ' '.repeat(300_000)
  const endless = Buffer.alloc(30 * 1024 * 1024, '# comment ')
  const began = performance.now()
  assertRefused(await putText(policy, `allow 10.0.0.1 # a${spaces}b`), 'line 1', /at most 16384 characters/)
  assertRefused(await putText(policy, `\nallow 10.0.0.1${spaces}b`), 'line 2', /at most 16384 characters/)
  assertRefused(await putText(policy, endless), 'line 1', /at most 16384 characters/)
  assertRefused(await putText(policy, `allow 10.0.0.1 # a${spaces.slice(0, 8_000)}b`), 'line 1', /at most 255 bytes/)
  assertRefused(await putText(policy, `allow 10.0.0.1${spaces.slice(0, 8_000)}b`), 'line 1', /must be 'allow CIDR'/)
  assert.ok(performance.now() - began < loadScaledTimeout(20_000), `${Math.round(performance.now() - began)} ms`)
})
