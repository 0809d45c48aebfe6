import assert from 'node:assert/strict'
import type { Db } from '../../src/db/pool.ts'
import { newId, newUuid, toId, toUuid, type Uuid } from '../../src/kernel/ids.ts'
import type { Client } from '../harness/client.ts'
import type { Account } from '../harness/control_plane.ts'
import type { startReceiver } from './receiver.ts'

export type Receiver = Awaited<ReturnType<typeof startReceiver>>

/** A destination at this receiver, which learns its secret. */
export async function newDestination(admin: Client, receiver: Receiver, fields = {}) {
  const { status, body, text } = await admin('POST', '/webhook_destinations', { url: receiver.url(), ...fields })
  assert.equal(status, 201, text)
  receiver.state.secrets.push(body.secret)
  return body
}

export const deliveriesOf = async (admin: Client, id: string, query = '') =>
  (await admin('GET', `/webhook_destinations/${id}/deliveries${query}`)).body.deliveries

export const accountUuid = ({ accountId }: Account): Uuid => toUuid(accountId as `ac_${string}`)

/** An event of each resource, one after the other. Resolves to their ids. */
export async function addEvents(
  { db }: { db: Db },
  admin: Account,
  resources: readonly string[],
  operation = 'x.create',
): Promise<string[]> {
  const ids: string[] = []
  for (const resource of resources) {
    const id = newUuid()
    await db.query({
      text: `insert into audit_events (account_id, id, operation, operation_id, resource_id) values ($1, $2, $3, $4, $5)`,
      values: [accountUuid(admin), id, operation, newId('op'), resource],
    })
    ids.push(toId('ev', id))
  }
  return ids
}
