import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import type { Client } from '../harness/client.ts'

/** Makes something as the given caller and resolves to its id. A new one each time. */
type Make = (as: Client) => Promise<string>

/** What the matrix has to know of an operation. Everything else it takes from the route. */
export type Expectation = {
  /** What an admin, and what a member, gets for a valid call on what an admin of their account made. */
  admin: number
  member: number
  /** What a member gets on what that member made, where it differs. */
  memberOnOwn?: number
  /** Makes what the path names, all its parameters. Needed when the path has any. */
  path?: (as: Client) => Promise<Record<string, string>>
  /** A valid body that changes something. `as` is the caller's admin, for what the body has to name. */
  body?: (as: Client) => object | Promise<object>
  /** Fields of the body that name another resource; `[make]` for a list of ids. */
  references?: Record<string, Make | [Make]>
  /** Makes something that this list must then show, to its own account only. */
  lists?: Make
  /** Query parameters that name another resource. */
  filters?: Record<string, Make>
  /** For an operation that only asks, though it is not a GET. */
  changesNothing?: true
}

const make =
  (path: string, body: () => object): Make =>
  async (as) => {
    const created = await as('POST', path, body())
    assert.equal(created.status, 201, created.text)
    return created.body.id
  }
const id = (one: Make) => async (as: Client) => ({ id: await one(as) })

const apiKey = make('/api_keys', () => ({ description: 'one' }))
const user = make('/users', () => ({ name: 'one', email: `${randomUUID()}@example.com` }))
const bot = make('/bot_users', () => ({ name: 'one' }))

/** By operation. A route that is missing here, and an entry without its route, fail the matrix. */
export const expectations: Record<string, Expectation> = {
  'api_keys.create': { admin: 201, member: 201, body: () => ({ description: 'new' }), references: { owner_id: bot } },
  'api_keys.get': { admin: 200, member: 200, path: id(apiKey) },
  'api_keys.list': { admin: 200, member: 200, lists: apiKey },
  'api_keys.update': {
    admin: 200,
    member: 403,
    memberOnOwn: 200,
    path: id(apiKey),
    body: () => ({ description: 'other', metadata: 'other' }),
  },
  'api_keys.delete': { admin: 204, member: 403, memberOnOwn: 204, path: id(apiKey) },

  'users.create': { admin: 201, member: 403, body: () => ({ name: 'new', email: `${randomUUID()}@example.com` }) },
  'users.get': { admin: 200, member: 200, path: id(user) },
  'users.list': { admin: 200, member: 200, lists: user },
  'users.update': { admin: 200, member: 403, path: id(user), body: () => ({ name: 'other', active: false }) },
  'users.delete': { admin: 204, member: 403, path: id(user) },

  'bot_users.create': { admin: 201, member: 403, body: () => ({ name: 'new' }) },
  'bot_users.get': { admin: 200, member: 200, path: id(bot) },
  'bot_users.list': { admin: 200, member: 200, lists: bot },
  'bot_users.update': { admin: 200, member: 403, path: id(bot), body: () => ({ name: 'other', active: false }) },
  'bot_users.delete': { admin: 204, member: 403, path: id(bot) },

  'caller.get': { admin: 200, member: 200 },
  'audit_events.list': {
    admin: 200,
    member: 403,
    lists: bot,
    filters: { resource_id: bot, owner_id: bot },
  },
}
