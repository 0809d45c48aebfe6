import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { sharedControlPlane } from './harness/shared_control_plane.ts'
import { sized } from './harness/thorough.ts'
import { revocationRounds, revocations } from './revocation/rounds.ts'

const plane = await sharedControlPlane({ after })

// `npm run drill -- revocation` does 10,000 of the first kind.
const rounds: Record<string, number> = { 'key deleted': sized(60, 200) }

for (const by of Object.keys(revocations)) {
  test(`${by} through one process: the very next request with the key through another is refused`, async () => {
    const admin = await plane.newAccount()
    assert.deepEqual(await revocationRounds(plane, admin, { by, rounds: rounds[by] ?? sized(32, 100) }), [])
  })
}

test('a key that deletes itself gets its response, and is refused from then on', async () => {
  const admin = await plane.newAccount()
  const { body: key } = await admin('POST', '/api_keys', {})
  const self = plane.clientFor(key.token)
  assert.equal((await self('DELETE', key.uri)).status, 204)
  for (const process of [0, 1]) assert.equal((await self('GET', '/caller', undefined, { process })).status, 401)
})

test("a deactivated bot's keys are refused, and work again when it is reactivated", async () => {
  const admin = await plane.newAccount()
  const { body: bot } = await admin('POST', '/bot_users', { name: 'b', active: true })
  const { body: key } = await admin('POST', '/api_keys', { owner_id: bot.id })
  const caller = plane.clientFor(key.token)
  for (const [active, status] of [
    [false, 401],
    [true, 200],
  ] as const) {
    await admin('PATCH', bot.uri, { active })
    for (const process of [0, 1]) assert.equal((await caller('GET', '/caller', undefined, { process })).status, status)
  }
})
