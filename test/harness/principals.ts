import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { ownersRights } from '../../src/identity/grant.ts'
import { hashToken, newToken } from '../../src/identity/token.ts'
import { toId, toUuid } from '../../src/kernel/ids.ts'
import { insertApiKey } from '../../src/resources/api_keys/store.ts'
import type { Client } from './client.ts'
import type { ControlPlane } from './control_plane.ts'

type Callers = Pick<ControlPlane, 'clientFor'>
/** A caller: a principal with its own key. */
export type Person = Client & { ownerId: string; ownerUri: string; keyId: string }

async function withKey({ clientFor }: Callers, admin: Client, owner: { id: string; uri: string }) {
  const { body: key } = await admin('POST', '/api_keys', { owner_id: owner.id })
  return Object.assign(clientFor(key.token), { ownerId: owner.id, ownerUri: owner.uri, keyId: key.id }) as Person
}

export async function newUser(plane: Callers, admin: Client, role: 'admin' | 'member' | 'viewer' = 'member') {
  const email = `${randomUUID()}@example.com`
  return withKey(plane, admin, (await admin('POST', '/users', { name: 'Grace', email, role })).body)
}

export async function newBot(plane: Callers, admin: Client) {
  return withKey(plane, admin, (await admin('POST', '/bot_users', { name: 'ci' })).body)
}

/** An admin whose key no one of the account has made, as the operator's commands and sign-in providers make them. */
export async function newIndependentAdmin(plane: Callers & Pick<ControlPlane, 'db'>, admin: Client): Promise<Person> {
  const email = `${randomUUID()}@example.com`
  const { body: user } = await admin('POST', '/users', { name: 'Ada', email, role: 'admin' })
  const accountId = toUuid((await admin('GET', '/caller')).body.account_id)
  const token = newToken()
  const key = await insertApiKey(
    plane.db,
    { accountId },
    {
      ...{ ownerId: user.id, tokenHash: hashToken(token), description: null, metadata: null, expires_at: null },
      ...{ grant: ownersRights, createdBy: null },
    },
  )
  return Object.assign(plane.clientFor(token), {
    ...{ ownerId: user.id, ownerUri: user.uri, keyId: toId('ak', key?.id ?? assert.fail('no key')) },
  }) as Person
}
