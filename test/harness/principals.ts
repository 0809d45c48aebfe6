import { randomUUID } from 'node:crypto'
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
