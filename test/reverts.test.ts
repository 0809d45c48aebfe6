// Undo, from the list of routes: every operation that changes something is undone exactly, or says why it cannot be.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { irreversible, undoOf } from '../src/resources/change_sets/undo.ts'
import { routes } from '../src/resources/routes.ts'
import type { Answer } from './harness/client.ts'
import { startControlPlane } from './harness/control_plane.ts'
import { assertRefused } from './harness/fixtures.ts'
import { isThorough } from './harness/thorough.ts'
import { expectations, writeTo } from './isolation/expectations.ts'
import { callOf } from './isolation/matrix.ts'
import { comparable, configurationOf } from './reverts/configuration.ts'

const plane = await startControlPlane({ after }, { env: { GATEHOUSE_TRUSTED_PROXIES: '127.0.0.1' } })
writeTo(plane.db)

const byOperation = new Map(routes.map((route) => [route.operation, route]))
const changes = routes.filter(({ query }) => query?.properties.dry_run)
/** Those take the cookie of a session, and none can be undone. */
const withSession = ['dashboard_session.sign_in', 'dashboard_session.sign_out', 'command_sign_in.answer']
/** Cannot be undone here: this installation has no ACME authority, and the deleted policies have rules. */
const notHere: Record<string, RegExp> = {
  'reserved_domains.certificate_management_policy.delete': /cannot be put back: .*GATEHOUSE_ACME_DIRECTORY/,
}

test('every change can be undone, or there is a reason why not', () => {
  for (const operation of Object.keys(irreversible))
    assert.ok(byOperation.has(operation), `${operation} is no operation`)
  const undone = changes.filter(({ operation }) => typeof undoOf(byOperation, operation) !== 'string')
  const without = changes.filter((route) => !undone.includes(route) && !Object.hasOwn(irreversible, route.operation))
  assert.deepEqual(without, [], 'neither the name says how, nor the table why not')
  assert.ok(undone.length > 50)
  assert.match(String(undoOf(byOperation, 'accounts.rename')), /not an operation of the API.*operator/)
})

test('a change that is undone leaves everything as it was before, and undoing that brings it back', async () => {
  for (const [number, route] of changes.entries()) {
    // They take a second admin.
    if ([...withSession, 'change_sets.approve', 'approval_policy.replace'].includes(route.operation)) continue
    const admin = await plane.newAccount()
    const { path, body } = expectations[route.operation] ?? assert.fail(route.operation)
    const ids = (await path?.(admin)) ?? {}
    const sent = route.body && (await body?.(admin))
    const before = await configurationOf(admin)
    const done = await callOf(route, admin)(ids, sent)
    assert.equal(done.status, route.success, done.text)
    const changed = await configurationOf(admin)

    const operation_id = done.headers.get('operation-id')
    const { audit_events } = (await admin('GET', '/audit_events')).body
    const event = audit_events.find((each: { operation_id: string }) => each.operation_id === operation_id)
    const revert = () => admin('POST', `/audit_events/${event.id}/revert`, {})
    const undo = undoOf(byOperation, route.operation)
    const draft = await revert()
    if (typeof undo === 'string') {
      assertRefused(draft, 409, 'ERR_NOT_REVERSIBLE')
      assert.ok(draft.body.msg.endsWith(undo), draft.text)
    } else if (notHere[route.operation]) {
      assertRefused(draft, 409, 'ERR_REVERT_CONFLICT')
      assert.match(draft.body.msg, notHere[route.operation] as RegExp)
    } else {
      assert.equal(draft.status, 201, `${route.operation}: ${draft.text}`)
      assert.deepEqual([draft.body.state, draft.body.reverts_id], ['draft', event.id])
      // Drafts of all operations are made alike.
      if (isThorough || number % 4 === 0)
        assert.deepEqual(comparable(await configurationOf(admin)), comparable(changed), 'a draft changes nothing')
      const second = await revert()
      await apply(draft)
      assert.deepEqual(comparable(await configurationOf(admin)), comparable(before), route.operation)
      assertRefused(await revert(), 409, 'ERR_NOT_REVERSIBLE')
      assert.equal((await admin('POST', `/change_sets/${second.body.id}/apply`, {})).status, 409, 'undone twice')
      await redo(draft, changed, route.operation)
    }
    async function apply({ body: { id } }: Answer) {
      const applied = await admin('POST', `/change_sets/${id}/apply`, {})
      assert.equal(applied.status, 200, `${route.operation}: ${applied.text}`)
    }
    async function redo({ body: { id } }: Answer, wanted: typeof changed, operation: string) {
      const back = await admin('POST', `/change_sets/${id}/revert`, {})
      // What was created by it and deleted again may have had a secret.
      if (back.body.error_code === 'ERR_NOT_REVERSIBLE') return assert.match(back.body.msg, /kept nowhere|again/)
      assert.equal(back.status, 201, `${operation}: ${back.text}`)
      await apply(back)
      assert.deepEqual(comparable(await configurationOf(admin)), comparable(wanted), operation)
      assert.equal((await admin('GET', `/change_sets/${id}`)).body.state, 'reverted')
    }
  }
})
