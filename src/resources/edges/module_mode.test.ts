import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { make, newRoute, newTcpEdge } from '../../../test/harness/fixtures.ts'
import { policyWith } from '../../../test/harness/ip.ts'
import { sharedControlPlane } from '../../../test/harness/shared_control_plane.ts'
import { run } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import type { RecordKey } from '../../distribution/records.ts'
import { toUuid } from '../../kernel/ids.ts'
import { defaultCell } from '../../operations/placement.ts'
import { compileRecords } from '../../publisher/records/compile.ts'

const plane = await sharedControlPlane({ after })
const admin = await plane.newAccount()
const accountId = toUuid(admin.accountId as `ac_${string}`)
const policy = await policyWith(admin, 'allow 10.0.0.0/8')
const ip_policy_ids = [policy]
const places = [await newTcpEdge(admin), await newRoute(admin)]

test('a module enforces unless it says that it warns, and goes back to that when it is replaced without a mode', async () => {
  for (const { uri } of places) {
    const path = `${new URL(uri).pathname}/ip_restriction`
    const modeAfter = async (body: object) => (await admin('PUT', path, { ip_policy_ids, ...body })).body.mode
    assert.equal(await modeAfter({}), 'enforce')
    assert.equal(await modeAfter({ mode: 'warn' }), 'warn')
    assert.equal((await admin('GET', path)).body.mode, 'warn')
    assert.equal((await admin('GET', new URL(uri).pathname)).body.ip_restriction.mode, 'warn')
    assert.equal(await modeAfter({}), 'enforce')
    const refused = await admin('PUT', path, { ip_policy_ids, mode: 'log' })
    assert.deepEqual([refused.status, refused.body.details.field], [400, 'mode'])
  }
})

const modulesOf = async (): Promise<[unknown, unknown][]> => {
  const changed = places.map(({ id }) => {
    const key: RecordKey = `${id.startsWith('edgtcp') ? 'tcp' : 'route'}.${id}`
    return { accountId, key }
  })
  const records = await compileRecords(plane.db, defaultCell, changed, Date.now())
  return records.map(({ value }) => {
    const { policies, policies_mode } = value as { policies?: unknown; policies_mode?: unknown }
    return [policies, policies_mode]
  })
}

test('only a module that is enabled and warns is sent with a mode, so that older nodes take all others', async () => {
  const put = async (body: object) => {
    for (const { uri } of places)
      await admin('PUT', `${new URL(uri).pathname}/ip_restriction`, { ip_policy_ids, ...body })
  }
  const both = <Value>(value: Value) => [value, value]
  await put({})
  assert.deepEqual(await modulesOf(), both([[policy], undefined]))
  await put({ mode: 'warn' })
  assert.deepEqual(await modulesOf(), both([[policy], 'warn']))
  await put({ mode: 'warn', enabled: false })
  assert.deepEqual(await modulesOf(), both([null, undefined]))
  // As it was stored before there were modes.
  await put({ mode: 'warn' })
  await run(
    plane.db,
    sql`update edge_modules set settings = '{}' where account_id = ${accountId} and module = 'ip_restriction'`,
  )
  assert.deepEqual(await modulesOf(), both([[policy], undefined]))
})

test('a check and an access test say that an address is let in with a warning', async () => {
  const edge = await newTcpEdge(admin, { ip_restriction: { ip_policy_ids, mode: 'warn' } })
  const { body } = await admin('POST', '/ip_checks', { ip: '192.0.2.1', edge_id: edge.id })
  assert.deepEqual([body.allowed, body.steps[0].enforced, body.steps[0].allowed], [true, false, false])
  assert.match(body.reason, new RegExp(`let through with a warning: ${edge.id} would refuse it`))
  const target = { type: 'edge', edge_id: edge.id }
  await make(admin, '/access_tests', { address: '192.0.2.1', target, expect: 'allowed' })
  const path = `/edges/tcp/${edge.id}/ip_restriction`
  const enforced = await admin('PUT', path, { ip_policy_ids })
  assert.deepEqual([enforced.status, enforced.body.error_code], [409, 'ERR_ACCESS_TEST_FAILED'])
})
