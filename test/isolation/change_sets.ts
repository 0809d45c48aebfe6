import assert from 'node:assert/strict'
import type { Expectation, Make } from './expectation.ts'
import { id, make } from './make.ts'

const newSet = () => ({ changes: [{ operation: 'ip_policies.create' }] })
const changeSet = make('/change_sets', newSet)

const applied: Make = async (as) => {
  const made = await changeSet(as)
  const answer = await as('POST', `/change_sets/${made}/apply`, {})
  assert.equal(answer.status, 200, answer.text)
  return made
}
/** It may not be undone before the call. */
const unconfirmed: Make = async (as) => {
  const made = await changeSet(as)
  const answer = await as('POST', `/change_sets/${made}/apply`, { confirm_within_seconds: 3_600 })
  assert.equal(answer.status, 200, answer.text)
  return made
}
/** The event of a change that anyone may undo. */
const event: Make = async (as) => {
  const { body: policy } = await as('POST', '/ip_policies', { description: 'one' })
  const { audit_events } = (await as('GET', `/audit_events?resource_id=${policy.id}`)).body
  return audit_events[0].id
}

export const changeSetExpectations: Record<string, Expectation> = {
  'change_sets.create': { admin: 201, member: 201, body: newSet },
  'change_sets.get': { admin: 200, member: 200, path: id(changeSet) },
  'change_sets.list': { admin: 200, member: 200, lists: changeSet },
  'change_sets.update': { admin: 200, member: 200, path: id(changeSet), body: () => ({ description: 'other' }) },
  'change_sets.preview': {
    admin: 200,
    member: 200,
    viewer: 403,
    path: id(changeSet),
    body: () => ({}),
    changesNothing: true,
  },
  // It may make no other change than the one of its scope.
  'change_sets.apply': { admin: 200, member: 200, scoped: 409, path: id(changeSet), body: () => ({}) },
  // It takes the right to make the changes.
  'change_sets.confirm': { admin: 200, member: 200, scoped: 403, path: id(unconfirmed), body: () => ({}) },
  // It takes the right to propose changes as well.
  'change_sets.revert': { admin: 201, member: 201, scoped: 403, path: id(applied), body: () => ({}) },
  'audit_events.revert': { admin: 201, member: 201, scoped: 403, path: id(event), body: () => ({}) },
  // The caller has made it.
  'change_sets.approve': {
    admin: 403,
    member: 403,
    scoped: 403,
    path: id(changeSet),
    body: () => ({ content_sha256: 'a'.repeat(64) }),
  },
  'change_sets.withdraw': { admin: 200, member: 200, path: id(changeSet), body: () => ({}) },
  'approval_policy.get': { admin: 200, member: 200 },
  // There is a single admin, who could have nothing approved.
  'approval_policy.replace': { admin: 409, member: 403, body: () => ({ required_for: ['ip_policies'] }) },
  'change_sets.delete': { admin: 204, member: 204, path: id(changeSet) },
}
