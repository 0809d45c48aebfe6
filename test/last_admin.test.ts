import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, test } from 'node:test'
import type { Client } from './harness/client.ts'
import { sharedControlPlane } from './harness/shared_control_plane.ts'

const plane = await sharedControlPlane({ after })

type Admin = { call: Client; uri: string }

async function twoAdmins(): Promise<[Admin, Admin]> {
  const first = await plane.newAccount()
  const { body: user } = await first('POST', '/users', {
    name: 'B',
    email: `${randomUUID()}@example.com`,
    role: 'admin',
  })
  const { body: key } = await first('POST', '/api_keys', { owner_id: user.id })
  return [
    { call: first, uri: `/users/${first.adminId}` },
    { call: plane.clientFor(key.token), uri: user.uri },
  ]
}

const ways: Record<string, (by: Admin, to: Admin, process: number) => Promise<{ status: number }>> = {
  demote: ({ call }, { uri }, process) => call('PATCH', uri, { role: 'member' }, { process }),
  deactivate: ({ call }, { uri }, process) => call('PATCH', uri, { active: false }, { process }),
  delete: ({ call }, { uri }, process) => call('DELETE', uri, undefined, { process }),
}

for (const [name, way] of Object.entries(ways)) {
  test(`two admins who ${name} each other at once leave one admin, and each gets a clear answer`, async () => {
    const rounds = name === 'demote' ? 50 : 15
    for (let round = 0; round < rounds; round++) {
      const [a, b] = await twoAdmins()
      const statuses = (await Promise.all([way(a, b, 0), way(b, a, 1)])).map(({ status }) => status)
      // The slower one is the last admin by then (409), or no longer one at all (401, 403).
      assert.equal(statuses.filter((status) => status < 300).length, 1, `round ${round}: ${statuses}`)
      assert.ok(
        statuses.every((status) => [200, 204, 401, 403, 409].includes(status)),
        `round ${round}: ${statuses}`,
      )
      const survivor = [a, b][statuses.findIndex((status) => status < 300)] as Admin
      const { body } = await survivor.call('GET', '/users')
      const admins = body.users.filter(
        ({ role, active }: { role: string; active: boolean }) => role === 'admin' && active,
      )
      assert.equal(admins.length, 1, `round ${round}`)
    }
  })
}

test('the last admin cannot be demoted, deactivated or deleted, not even by itself', async () => {
  const only = await plane.newAccount()
  const self = { call: only, uri: `/users/${only.adminId}` }
  for (const way of Object.values(ways)) assert.equal((await way(self, self, 0)).status, 409)
  assert.equal((await only('GET', self.uri)).body.role, 'admin')
})
