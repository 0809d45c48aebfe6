// A client may GET a resource, edit what it read, and send all of it back.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import type { TObject } from 'typebox'
import type { Route } from '../src/http/route.ts'
import { modules } from '../src/resources/edges/modules.ts'
import { routes } from '../src/resources/routes.ts'
import type { Answer } from './harness/client.ts'
import { nothingWasADefect } from './harness/defects.ts'
import { newPolicy, newTcpEdge } from './harness/fixtures.ts'
import { sharedControlPlane } from './harness/shared_control_plane.ts'
import { expectations } from './isolation/expectations.ts'

const plane = await sharedControlPlane({ after })
const admin = await plane.newAccount()

const pathOf = async ({ operation, path }: Route): Promise<string> => {
  const ids = await expectations[operation]?.path?.(admin)
  return path.replaceAll(/:(\w+)/g, (_, name) => ids?.[name] ?? assert.fail(`${operation} has no path`))
}
const read = async (path: string) => {
  const answer = await admin('GET', path)
  assert.equal(answer.status, 200, answer.text)
  return { shown: answer.body, etag: answer.headers.get('etag') }
}
const newestEvent = async () => (await admin('GET', '/audit_events?limit=1')).body.audit_events[0].id

/** Sends a body that must change nothing, and leave no trace of a change. */
async function assertNoChange(send: () => Promise<Answer>, path: string): Promise<void> {
  const [before, event] = [await read(path), await newestEvent()]
  const answer = await send()
  assert.equal(answer.status, 200, answer.text)
  assert.equal(answer.headers.get('service-generation'), null, 'edge nodes were told of a change')
  assert.equal(await newestEvent(), event, 'there is an audit event')
  assert.equal((await read(path)).etag, before.etag)
}

const updates = routes.filter(({ method }) => method === 'PATCH')
test('there are resources to try it with', () => assert.ok(updates.length >= 16, `${updates.length}`))

for (const route of updates) {
  test(`${route.operation}: the body of a GET is accepted and changes nothing`, async () => {
    const path = await pathOf(route)
    const { shown } = await read(path)
    await assertNoChange(() => admin('PATCH', path, shown), path)
  })

  test(`${route.operation}: one field of the body of a GET is edited, and only that changes`, async () => {
    const path = await pathOf(route)
    const { shown } = await read(path)
    const edited = 'description' in (route.body as TObject).properties ? { description: 'edited' } : { name: 'edited' }
    const { status, body, text } = await admin('PATCH', path, { ...shown, ...edited })
    assert.equal(status, 200, text)
    // A change set's hash is of all that it has.
    const { content_sha256 = undefined } = body
    assert.deepEqual(body, { ...shown, ...edited, ...(content_sha256 && { content_sha256 }) })
  })

  test(`${route.operation}: a read-only field with another value is refused by its name`, async () => {
    const path = await pathOf(route)
    const { shown, etag } = await read(path)
    const readOnly = Object.keys((route.response as TObject).properties).filter(
      (field) => !(field in (route.body as TObject).properties),
    )
    assert.ok(readOnly.includes('uri') && readOnly.includes('created_at'))
    for (const field of readOnly) {
      const { status, body, text } = await admin('PATCH', path, { ...shown, [field]: ['another value'] })
      assert.deepEqual([status, body.error_code, body.details?.field], [400, 'ERR_INVALID_FIELD', field], text)
      assert.match(body.msg, /is read-only/)
    }
    const { body } = await admin('PATCH', path, { ...shown, uri: 'https://elsewhere.example', created_at: null })
    assert.equal(body.details.field, 'uri')
    assert.equal((await read(path)).etag, etag)
  })
}

const moduleOf = ({ path }: Route): string => path.slice(path.lastIndexOf('/') + 1)
const replacements = routes.filter((route) => route.method === 'PUT' && moduleOf(route) in modules)
test('every module is among those tried', () => {
  const tried = new Set(replacements.map(moduleOf))
  assert.deepEqual([...tried].toSorted(), Object.keys(modules).toSorted())
})

for (const route of replacements) {
  test(`${route.operation}: what GET returns is what PUT takes`, async () => {
    const path = await pathOf(route)
    const { shown } = await read(path)
    for (const field of Object.keys((route.body as TObject).properties))
      assert.ok(field in shown, `${field} is missing in what GET returns`)
    await assertNoChange(() => admin('PUT', path, shown), path)
    assert.equal((await admin('DELETE', path)).status, 204)
    const restored = await admin('PUT', path, shown)
    assert.deepEqual([restored.status, restored.body], [200, shown], restored.text)
    const { body } = await admin('PUT', path, { ...shown, enabled: false })
    assert.deepEqual(body, { ...shown, enabled: false })
  })
}

test('a module sent back with new references may still have the old ones in its read-only field', async () => {
  const [one, two] = [await newPolicy(admin), await newPolicy(admin)]
  const edge = await newTcpEdge(admin, { ip_restriction: { ip_policy_ids: [one.id] } })
  const { shown } = await read(edge.uri)
  const { ip_restriction } = shown
  const patched = await admin('PATCH', edge.uri, {
    ...shown,
    ip_restriction: { ...ip_restriction, ip_policy_ids: [two.id] },
  })
  assert.deepEqual(patched.body.ip_restriction?.ip_policy_ids, [two.id], patched.text)
  const mixed = await admin('PUT', `${edge.uri}/ip_restriction`, {
    ip_policy_ids: [two.id],
    ip_policies: [{ id: one.id, uri: one.uri }],
  })
  assert.deepEqual([mixed.status, mixed.body.details.field], [400, 'ip_policies'], mixed.text)
  const nested = await admin('PATCH', edge.uri, { ip_restriction: { ip_policy_ids: [two.id], ip_policies: [] } })
  assert.deepEqual([nested.status, nested.body.details.field], [400, 'ip_restriction.ip_policies'], nested.text)
})

test('values that change by themselves are not compared', async () => {
  const { body: key } = await admin('POST', '/api_keys', {})
  const { shown } = await read(key.uri)
  const used = { last_used_at: '2026-01-01T00:00:00.000Z', last_used_ip: '192.0.2.1' }
  const { status, body } = await admin('PATCH', key.uri, { ...shown, ...used })
  assert.deepEqual([status, body.last_used_at], [200, null])
})

test('a PATCH without read-only fields does all that it says, even if the values are the current ones', async () => {
  const wide = await admin('POST', '/api_keys', {})
  const narrow = await admin('POST', '/api_keys', { scopes: ['api_keys.*'] })
  const limited = plane.clientFor(narrow.body.token)
  const shown = (await limited('GET', wide.body.uri)).body
  const edited = await limited('PATCH', wide.body.uri, { ...shown, description: 'edited' })
  assert.deepEqual([edited.status, edited.body.description], [200, 'edited'], edited.text)
  assert.equal((await limited('PATCH', wide.body.uri, { scopes: shown.scopes })).status, 403)
  const wider = await limited('PATCH', narrow.body.uri, { ...narrow.body, token: null, scopes: ['*'] })
  assert.equal(wider.body.error_code, 'ERR_SCOPE', wider.text)
})

test('when several clients send back what they read at the same time, one wins and the others overwrite nothing', async () => {
  const policies = await Promise.all(Array.from({ length: 5 }, () => newPolicy(admin)))
  const [first, ...others] = policies.map(({ id }) => id)
  const { body: made } = await admin('POST', '/ip_restrictions', { type: 'agent', ip_policy_ids: [first] })
  const answers = await Promise.all(others.map((id) => admin('PATCH', made.uri, { ...made, ip_policy_ids: [id] })))
  const [winner, ...more] = answers.filter(({ status }) => status === 200)
  assert.deepEqual([winner?.status, more], [200, []])
  for (const { status, body } of answers.filter((answer) => answer !== winner))
    assert.deepEqual([status, body.details.field], [400, 'ip_policies'])
  assert.deepEqual((await read(made.uri)).shown, winner?.body)
})

nothingWasADefect(plane)
