// Changes that remove or add unusually much need `confirm=true`: the exact borders, and every way to make one.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import type { Answer, Client } from './harness/client.ts'
import { callersOf, startControlPlane } from './harness/control_plane.ts'
import { assertRefused, make, newHttpsEdge, newRoute } from './harness/fixtures.ts'
import { behindProxy, policyWith } from './harness/ip.ts'

const plane = await startControlPlane({ after }, { processes: 2, env: behindProxy })
const admin = await plane.newAccount()

const lines = (count: number, first = 0) =>
  Array.from({ length: count }, (_, index) => `allow 10.${(first + index) >> 8}.${(first + index) & 255}.0/24`)
const policyOf = (count: number) => policyWith(admin, ...lines(count))
const replaceAs = (as: Client, id: string, rules: readonly string[], query = ''): Promise<Answer> =>
  as('PUT', `/ip_policies/${id}/rules${query}`, undefined, { rawBody: rules.join('\n'), contentType: 'text/plain' })
const replace = (...change: [id: string, rules: readonly string[], query?: string]) => replaceAs(admin, ...change)
const rulesOf = async (id: string): Promise<{ id: string }[]> =>
  (await admin('GET', `/ip_policies/${id}/rules`)).body.rules
const countOf = async (id: string): Promise<number> => (await rulesOf(id)).length

test('a rule set needs to be confirmed above both numbers, and at neither', async () => {
  const cases: [before: number, after: string[], isUnusual: boolean, what: string][] = [
    [40, lines(20), false, 'removes 20, which is half'],
    [41, lines(21), false, 'removes 20 of 41'],
    [41, lines(20), true, 'removes 21, and 21 are more than half of 41'],
    [42, lines(21), false, 'removes 21, which is half of 42'],
    [42, lines(20), true, 'removes 22 of 42'],
    [3, [], false, 'removes all, and these are 3'],
    [20, [], false, 'removes all, and these are 20'],
    [21, [], true, 'removes all 21'],
    [0, lines(500), false, 'adds the first ones'],
    [1, lines(21), false, 'adds 20 to 1'],
    [1, lines(22), true, 'adds 21 to 1'],
    [42, lines(63), false, 'adds 21, which is half of 42'],
    [42, lines(64), true, 'adds 22 to 42'],
    [21, lines(21, 100), true, 'removes 21 and adds 21'],
    [21, lines(21).map((line) => `${line} # renamed`), false, 'changes no range'],
    [21, lines(21).map((line) => line.replace('allow', 'deny')), true, 'turns all of them around'],
  ]
  for (const [before, after, isUnusual, what] of cases) {
    const id = await policyOf(before)
    const answer = await replace(id, after)
    assert.equal(answer.status, isUnusual ? 409 : 200, `${what}: ${answer.text}`)
    assert.equal(await countOf(id), isUnusual ? before : after.length, what)
    if (!isUnusual) continue
    assertRefused(answer, 409, 'ERR_UNUSUAL_CHANGE')
    assert.equal((await replace(id, after, '?confirm=true')).status, 200, what)
    assert.equal(await countOf(id), after.length, what)
  }
})

test('the refusal has the counts, and the audit says that someone confirmed', async () => {
  const id = await policyOf(30)
  const refused = await replace(id, lines(5, 28))
  const { of, resource, before, after, added, removed } = refused.body.details
  assert.deepEqual([of, resource, before, after, added, removed], ['ip_policy_rules', id, '30', '5', '3', '28'])
  assert.match(
    refused.body.msg,
    new RegExp(`^This change removes 28 and adds 3; there are 30 rules of ${id}, and there would be 5\\. Nothing`),
  )
  const eventsOf = async () => (await admin('GET', `/audit_events?resource_id=${id}`)).body.audit_events
  const before1 = (await eventsOf()).length
  assert.equal((await replace(id, lines(5, 28), '?confirm=false')).status, 409)
  assert.equal((await eventsOf()).length, before1, 'a refused change leaves no event')
  await replace(id, lines(5, 28), '?confirm=true')
  assert.deepEqual((await eventsOf())[0].after, { rules: 5, added: 3, changed: 0, removed: 28, confirmed: true })
  await replace(id, lines(4, 28), '?confirm=true')
  assert.equal((await eventsOf())[0].after.confirmed, undefined, 'there was nothing to confirm')
})

test('a dry run says that it needs to be confirmed, and changes nothing', async () => {
  const id = await policyOf(30)
  const tried = await replace(id, [], '?dry_run=true')
  assert.equal(tried.status, 200, tried.text)
  const extent = { of: 'ip_policy_rules', resource: id, before: 30, added: 0, removed: 30 }
  assert.deepEqual(tried.body.needs_confirmation, [extent])
  const confirmed = await replace(id, [], '?dry_run=true&confirm=true')
  assert.deepEqual(confirmed.body.needs_confirmation, [extent])
  assert.equal(await countOf(id), 30)
  assert.deepEqual((await replace(id, lines(15), '?dry_run=true')).body.needs_confirmation, [])
})

test('rules that are removed together need it; one at a time, or with the policy, they do not', async () => {
  const id = await policyOf(30)
  const ids = (await rulesOf(id)).map((rule) => rule.id)
  const remove = (rule_ids: string[], query = '') =>
    admin('POST', `/ip_policies/${id}/remove_rules${query}`, { rule_ids })
  assertRefused(await remove(ids.slice(0, 21)), 409, 'ERR_UNUSUAL_CHANGE')
  assert.equal((await remove(ids.slice(0, 21), '?dry_run=true')).body.needs_confirmation[0].removed, 21)
  assert.equal(await countOf(id), 30)
  assert.equal((await remove(ids.slice(0, 20))).body.removed, 20)
  for (const rule of ids.slice(20)) assert.equal((await admin('DELETE', `/ip_policy_rules/${rule}`)).status, 204)
  const whole = await policyOf(30)
  assert.equal((await admin('DELETE', `/ip_policies/${whole}`)).status, 204)
  const large = await policyOf(50)
  const many = (await rulesOf(large)).map((rule) => rule.id).slice(0, 30)
  const path = `/ip_policies/${large}/remove_rules?confirm=true`
  assert.equal((await admin('POST', path, { rule_ids: many })).body.removed, 30)
  const [event] = (await admin('GET', `/audit_events?resource_id=${large}`)).body.audit_events
  assert.equal(event.after.confirmed, true)
})

test('operators set both numbers, and callers can read them', async () => {
  const other = await plane.startProcess({
    GATEHOUSE_UNUSUAL_CHANGE_ENTRIES: '2',
    GATEHOUSE_UNUSUAL_CHANGE_PERCENT: '10',
  })
  const account = await plane.newAccount()
  const { token } = await make(account, '/api_keys')
  const here = callersOf([other], plane.db).clientFor(token)
  assert.deepEqual((await account('GET', '/caller')).body.unusual_above, { entries: 20, percent: 50 })
  assert.deepEqual((await here('GET', '/caller')).body.unusual_above, { entries: 2, percent: 10 })
  const id = await policyWith(account, ...lines(30))
  assertRefused(await replaceAs(here, id, lines(26)), 409, 'ERR_UNUSUAL_CHANGE')
  assert.equal((await replaceAs(here, id, lines(27))).status, 200)
})

test('changes at the same time are judged one after the other', async () => {
  const id = await policyOf(42)
  // Each is within half of what it finds first. The second finds the rest of the first, of which it removes more than half.
  const answers = await Promise.all([replace(id, lines(21)), replace(id, lines(21, 21))])
  const statuses = answers.map(({ status }) => status).toSorted()
  assert.deepEqual(statuses, [200, 409], answers.map(({ text }) => text).join('\n'))
  assert.equal(await countOf(id), 21)
})

type Change = { operation: string; parameters?: object; body?: object }
const drafted = async (as: Client, changes: Change[]): Promise<string> => {
  const made = await as('POST', '/change_sets', { changes })
  assert.equal(made.status, 201, made.text)
  return `/change_sets/${made.body.id}`
}
const apply = (as: Client, path: string, query = '') => as('POST', `${path}/apply${query}`, {})
const removeRule = ({ id }: { id: string }): Change => ({ operation: 'ip_policy_rules.delete', parameters: { id } })

test('a change set is one change: its single changes count together', async () => {
  const id = await policyOf(40)
  const rules = await rulesOf(id)
  const path = await drafted(admin, rules.slice(0, 21).map(removeRule))
  const extent = { of: 'ip_policy_rules', resource: id, before: 40, added: 0, removed: 21 }
  assert.deepEqual((await admin('POST', `${path}/preview`, {})).body.needs_confirmation, [extent])
  assert.deepEqual((await apply(admin, path, '?dry_run=true')).body.needs_confirmation, [extent])
  assertRefused(await apply(admin, path), 409, 'ERR_UNUSUAL_CHANGE')
  assert.equal(await countOf(id), 40, 'none of it is made')
  assert.equal((await apply(admin, path, '?confirm=true')).status, 200)
  assert.equal(await countOf(id), 19)
  const events = (await admin('GET', '/audit_events')).body.audit_events
  const applied = events.find(({ operation }: Change) => operation === 'change_sets.apply')
  assert.equal(applied.after.confirmed, true)

  const small = await policyOf(40)
  const half = await drafted(admin, (await rulesOf(small)).slice(0, 20).map(removeRule))
  assert.deepEqual((await admin('POST', `${half}/preview`, {})).body.needs_confirmation, [])
  assert.equal((await apply(admin, half)).status, 200)
})

test('a rule set in a change set is judged with the rest, and a proposal cannot confirm', async () => {
  const id = await policyOf(30)
  const empty = { operation: 'ip_policies.replace_rules', parameters: { id }, body: { rules: [] } }
  const path = await drafted(admin, [...(await rulesOf(id)).slice(0, 12).map(removeRule), empty])
  const refused = await apply(admin, path)
  assertRefused(refused, 409, 'ERR_UNUSUAL_CHANGE')
  assert.deepEqual([refused.body.details.before, refused.body.details.removed], ['30', '30'])
  const alone = await drafted(admin, [empty])
  assertRefused(await apply(admin, alone), 409, 'ERR_UNUSUAL_CHANGE')
  assert.equal((await apply(admin, alone, '?confirm=true')).status, 200)
  const sly = { ...empty, parameters: { id, confirm: true } }
  const refusedSly = await admin('POST', '/change_sets', { changes: [sly] })
  assertRefused(refusedSly, 409, 'ERR_CHANGE_REFUSED', 'confirm')
})

test('what an account has at the edge is counted over all of its kinds', async () => {
  const account = await plane.newAccount()
  const first = Array.from({ length: 30 }, (_, index) => ({
    ...{ operation: 'static_backends.create', body: { address: `app${index}.internal:80` } },
  }))
  assert.equal((await apply(account, await drafted(account, first))).status, 200, 'nothing was there before')
  const edge = await newHttpsEdge(account, {})
  for (let index = 0; index < 11; index++) await newRoute(account, {}, edge)
  const { body } = await account('GET', '/backends/static')
  const deletion = ({ id }: { id: string }): Change => ({ operation: 'static_backends.delete', parameters: { id } })
  const wholeEdge = { operation: 'https_edges.delete', parameters: { id: edge.id } }
  // 42 entries: half of them are 21. The edge goes with its 11 routes.
  const within = await drafted(account, [...body.backends.slice(0, 9).map(deletion), wholeEdge])
  assert.deepEqual((await account('POST', `${within}/preview`, {})).body.needs_confirmation, [])
  const beyond = await drafted(account, [...body.backends.slice(0, 10).map(deletion), wholeEdge])
  const refused = await apply(account, beyond)
  assertRefused(refused, 409, 'ERR_UNUSUAL_CHANGE')
  const { of, resource, before, after: left, removed } = refused.body.details
  assert.deepEqual([of, resource, before, left, removed], ['edge_entries', account.accountId, '42', '20', '22'])
  assert.equal((await account('DELETE', edge.uri)).status, 204, 'a single one is never asked about')
})

test('what a change set creates and deletes again is neither added nor removed, and modules are no entries', async () => {
  const account = await plane.newAccount()
  const backend = await make(account, '/backends/static', { address: 'app.internal:80' })
  const changes = Array.from({ length: 25 }, (_, index) => [
    { operation: 'tcp_edges.create', body: {} },
    {
      operation: 'tcp_edges.backend.replace',
      parameters: { id: `{{changes[${index * 3}].id}}` },
      body: { backend_id: backend.id },
    },
    { operation: 'tcp_edges.delete', parameters: { id: `{{changes[${index * 3}].id}}` } },
  ]).flat()
  assert.equal((await apply(account, await drafted(account, changes))).status, 200)
})
