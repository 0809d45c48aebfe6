import assert from 'node:assert/strict'
import type { Expectation, Make } from './expectation.ts'
import { id } from './make.ts'

export function invitationExpectations(user: Make): Record<string, Expectation> {
  const invited: Make = async (as) => {
    const userId = await user(as)
    const { status, text } = await as('POST', `/users/${userId}/invitation`, {})
    assert.equal(status, 201, text)
    return userId
  }
  return {
    // An invited person has no limits, so a key with limits invites no one.
    'users.invitation.create': { admin: 201, member: 403, scoped: 403, path: id(user), body: () => ({}) },
    'users.invitation.get': { admin: 200, member: 403, path: id(invited) },
    'users.invitation.delete': { admin: 204, member: 403, path: id(invited) },
  }
}
