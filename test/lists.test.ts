import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { after, before, describe, test } from 'node:test'
import type { Db } from '../src/db/pool.ts'
import { type Caller, findCaller, findCallerBySession, noteSessionUse } from '../src/identity/caller.ts'
import { newSessionSecret, newToken } from '../src/identity/token.ts'
import { type Id, newId, newUuid, toId, toUuid, type Uuid } from '../src/kernel/ids.ts'
import { deleteOutboxBefore, generationsOf, readOutbox } from '../src/operations/outbox.ts'
import { defaultCell } from '../src/operations/placement.ts'
import { findApiKey, listApiKeys } from '../src/resources/api_keys/store.ts'
import { listAuditEvents } from '../src/resources/audit_events/store.ts'
import {
  deleteEndedSessions,
  deleteProviderSessions,
  deleteSession,
  endOldestSessions,
  findSession,
  findSignedInBy,
} from '../src/resources/dashboard_session/store.ts'
import { listPrincipals } from '../src/resources/principals/store.ts'
import type { Answer } from './harness/client.ts'
import { type Account, startControlPlane } from './harness/control_plane.ts'
import { planOf } from './harness/plans.ts'
import { randomBelow } from './harness/random.ts'

const plane = await startControlPlane({ after }, { processes: 2 })
const uuidOf = (id: string) => toUuid(id as Id)

/** Straight into the database: through the API it would take longer than the walk. */
async function insertKeys({ accountId, adminId }: Account, count: number): Promise<string[]> {
  const ids = Array.from({ length: count }, () => newUuid())
  await plane.db.query({
    text: `insert into api_keys (account_id, id, owner_id, owner_kind, token_hash)
           select $1, id, $2, 'user', sha256(id::text::bytea) from unnest($3::uuid[]) id`,
    values: [uuidOf(accountId), uuidOf(adminId), ids],
  })
  return ids.map((id) => toId('ak', id))
}

test('paging through 5,000 keys repeats none and misses none, while others are created and deleted', async (t) => {
  const admin = await plane.newAccount()
  const inserted = await insertKeys(admin, 5_000)
  const deleted = new Set<string>()
  const created = new Set<string>()
  let walking = true
  let cursor = inserted.length - 1
  const change = async (process: number) => {
    while (walking) {
      created.add((await admin('POST', '/api_keys', {}, { process })).body.id)
      // Where the walk is just now, so that the key its next page begins before is often gone, and anywhere.
      for (const at of [cursor - randomBelow(12), randomBelow(inserted.length)]) {
        const id = inserted[at]
        if (!id || deleted.has(id)) continue
        deleted.add(id)
        assert.equal((await admin('DELETE', `/api_keys/${id}`, undefined, { process })).status, 204)
      }
    }
  }
  const changing = [change(0), change(1)]

  const shown: string[] = []
  let pages = 0
  for (let uri: string | null = '/api_keys?limit=7'; uri; pages++) {
    const { status, body }: Answer = await admin('GET', uri, undefined, { process: pages % 2 })
    assert.equal(status, 200)
    assert.ok(body.keys.length > 0, 'an empty page')
    assert.ok(body.keys.length === 7 || body.next_page_uri === null, 'a short page that is not the last')
    shown.push(...body.keys.map(({ id }: { id: string }) => id))
    cursor = Math.max(inserted.indexOf(shown.at(-1) ?? ''), 0)
    uri = body.next_page_uri
  }
  walking = false
  await Promise.all(changing)

  const seen = new Set(shown)
  assert.equal(seen.size, shown.length, 'a key was shown twice')
  assert.deepEqual(
    inserted.filter((id) => !deleted.has(id) && !seen.has(id)),
    [],
    'keys that were there all the time were missed',
  )
  assert.deepEqual(shown, shown.toSorted().reverse(), 'not newest first')
  const cursorsGone = shown.filter((id, index) => index % 7 === 6 && deleted.has(id)).length
  assert.ok(deleted.size > 100 && created.size > 50 && cursorsGone > 5, 'the others were too slow to matter')
  t.diagnostic(
    `${pages} pages; meanwhile ${created.size} keys came, ${deleted.size} went, ${cursorsGone} of them cursors`,
  )
})

describe('with many rows', () => {
  let account: Account
  let caller: Caller

  before(async () => {
    account = await plane.newAccount()
    const others = await Promise.all([plane.newAccount(), plane.newAccount()])
    await plane.db.query({
      text: `insert into accounts (id, name) select gen_random_uuid(), 'a' || n from generate_series(1, 5000) n`,
    })
    for (const { accountId } of [account, ...others]) {
      const [id, ids] = [uuidOf(accountId), Array.from({ length: 10_000 }, () => newUuid())]
      await plane.db.query({
        text: `insert into principals (account_id, id, kind, name, role)
               select $1, id, 'bot', 'b', 'member' from unnest($2::uuid[]) id`,
        values: [id, ids],
      })
      await plane.db.query({
        text: `insert into api_keys (account_id, id, owner_id, owner_kind, token_hash)
               select $1, gen_random_uuid(), id, 'bot', sha256(id::text::bytea) from unnest($2::uuid[]) id`,
        values: [id, ids],
      })
      await plane.db.query({
        text: `insert into api_key_previous_tokens (account_id, api_key_id, token_hash, expires_at)
               select account_id, id, sha256(token_hash), now() from api_keys where account_id = $1`,
        values: [id],
      })
      await plane.db.query({
        text: `insert into audit_events (account_id, id, operation, operation_id, owner_id, resource_id)
               select $1, id, 'api_keys.create', 'op_', id, id from unnest($2::uuid[]) id`,
        values: [id, ids],
      })
      await insertSessions(id)
    }
    await plane.db.query({
      text: `insert into outbox (generation, account_id, key)
             select n, $1, 'tcp.' || n from generate_series(1, $2::int) n`,
      values: [uuidOf(account.accountId), changes],
    })
    await plane.db.query({ text: 'analyze' })
    caller = {
      ...callerOf(account),
      role: 'admin',
      apiKeyId: newId('ak'),
      apiKeyExpiresAt: null,
      apiKeyRotatedAt: null,
      approvalRequiredFor: [],
      scopes: ['*'],
      allowedCidrs: [],
      tokenReplaced: false,
      traffic: 'api',
      requestsPerMinute: null,
      policyRevision: 0,
      restricted: false,
    }
  })

  /** Two of each key. A few of them were opened by a provider, and a few have ended. */
  const insertSessions = async (accountId: Uuid) => {
    await plane.db.query({
      text: `insert into identities (account_id, id, provider, issuer, subject, owner_id)
             select account_id, id, 'p', 'https://issuer.example.com', id::text, owner_id from api_keys
             where account_id = $1 and right(id::text, 1) = '0'`,
      values: [accountId],
    })
    await plane.db.query({
      text: `insert into dashboard_sessions
               (account_id, id, api_key_id, token_hash, secret_hash, last_used_at, expires_at, identity_id, provider, provider_sid)
             select k.account_id, gen_random_uuid(), k.id, token_hash, sha256((k.id::text || n)::bytea),
               now() - random() * interval '61 minutes', now() + random() * interval '12 hours' - interval '5 minutes', i.id, i.provider, i.id::text
             from generate_series(1, 2) n, api_keys k left join identities i on i.account_id = k.account_id and i.id = k.id
             where k.account_id = $1`,
      values: [accountId],
    })
  }
  const changes = 30_000

  const callerOf = ({ accountId, adminId }: Account) => ({
    accountId: uuidOf(accountId) as Uuid,
    ownerId: adminId as Id<'usr'>,
  })

  /** The last statement that the code really sends, explained for the values it has and for any it may have. */
  async function plansOf(ask: (db: Db) => Promise<unknown>, statements = 1): Promise<string[]> {
    const plans: string[] = []
    await ask({
      async query({ text, values = [] }) {
        plans.push(await planOf(plane.db, { text, values }))
        // What PostgreSQL may change to after a prepared statement was used five times.
        plans.push(await planOf(plane.db, { text }, 'generic_plan'))
        return { rows: [] }
      },
    })
    assert.equal(plans.length, 2 * statements)
    return plans.slice(-2)
  }

  /** Answers each statement with this row; by default a key that is found, so that nothing further is looked up. */
  const answering = (db: Db, row: object = { key_id: newUuid(), live: false }): Db => ({
    query: async (statement) => ({ ...(await db.query(statement)), rows: [row] }),
  })
  const nextChanges = (after: number) => (db: Db) =>
    readOutbox(answering(db, { settled: changes }), defaultCell, after, 100)
  const before_id = <P extends 'ak' | 'bot' | 'ev'>(prefix: P) => ({ before_id: newId(prefix), limit: 7 })
  // The ids were made just now, so all the events are in the partition of this month; the others are empty.
  const month = `audit_events_${new Date().toISOString().slice(0, 7).replace('-', '_')}`
  const statements: Record<string, { by: string[]; ask: (db: Db) => Promise<unknown>; statements?: number }> = {
    'the look-up of a replaced token': {
      by: ['api_key_previous_tokens_hash_unique', 'api_keys_pkey', 'principals_pkey', 'accounts_pkey'],
      ask: (db) => findCaller(db, newToken(), undefined),
      statements: 2,
    },
    'the token look-up': {
      by: ['api_keys_token_hash_unique', 'principals_pkey', 'accounts_pkey'],
      ask: (db) => findCaller(answering(db), newToken(), undefined),
    },
    'an API key by id': { by: ['api_keys_pkey'], ask: (db) => findApiKey(db, caller, newId('ak'), false) },
    'the first page of API keys': { by: ['api_keys_pkey'], ask: (db) => listApiKeys(db, caller, { limit: 7 }) },
    // Where the page begins has to be part of what the index is asked; as a mere filter, late pages read all before them.
    'the next page of API keys': {
      by: ['api_keys_pkey', 'Index Cond: .*\\(id <'],
      ask: (db) => listApiKeys(db, caller, before_id('ak')),
    },
    'a page of bots': {
      by: ['principals_pkey', 'Index Cond: .*\\(id <'],
      ask: (db) => listPrincipals(db, caller, 'bot', before_id('bot')),
    },
    'a page of audit events': {
      by: [`${month}_pkey`, 'Index Cond: .*\\(id <'],
      ask: (db) => listAuditEvents(db, caller, before_id('ev')),
    },
    'a page of the audit events of one resource': {
      by: [`${month}_account_id_resource_id_id_idx`],
      ask: (db) => listAuditEvents(db, caller, { resource_id: newId('ak'), limit: 7 }),
    },
    'the next changes of the outbox': {
      by: ['outbox_pkey', 'Index Cond: .*generation >'],
      ask: nextChanges(changes - 10),
      statements: 2,
    },
    'the next changes of the outbox for a publisher that is far behind': {
      by: ['outbox_pkey', 'Index Cond: .*generation >'],
      ask: nextChanges(0),
      statements: 2,
    },
    'the oldest changes of the outbox': {
      by: ['outbox_pkey'],
      ask: (db) => deleteOutboxBefore(answering(db, { looked_at: 0, deleted: 0 }), Date.now(), changes),
    },
    'the generations of an account': { by: ['outbox_pkey'], ask: (db) => generationsOf(db, caller, [1, 2, 3]) },
    'the look-up of a session by its secret': {
      by: ['dashboard_sessions_secret_hash_unique', 'api_keys_pkey', 'principals_pkey', 'accounts_pkey'],
      ask: (db) => findCallerBySession(answering(db), newSessionSecret(), undefined),
    },
    'noting the use of a session': {
      by: ['dashboard_sessions_pkey'],
      ask: (db) => noteSessionUse(db, caller, newUuid()),
    },
    'a session by id': { by: ['dashboard_sessions_pkey'], ask: (db) => findSession(db, caller, newId('ses')) },
    'the provider of a session': {
      by: ['dashboard_sessions_pkey'],
      ask: (db) => findSignedInBy(db, caller, newId('ses')),
    },
    'ending a session': { by: ['dashboard_sessions_pkey'], ask: (db) => deleteSession(db, caller, newId('ses')) },
    'ending the oldest sessions of a key': {
      by: ['dashboard_sessions_of_key', 'dashboard_sessions_pkey'],
      ask: (db) => endOldestSessions(db, caller),
    },
    'ending the sessions of a person at a provider': {
      by: ['dashboard_sessions_of_identity'],
      ask: (db) =>
        deleteProviderSessions(db, caller, {
          issuer: 'https://issuer.example.com',
          subject: newUuid(),
          sid: undefined,
          before: Date.now() / 1_000,
        }),
    },
    'deleting ended sessions': {
      by: ['dashboard_sessions_age', 'dashboard_sessions_idle'],
      ask: (db) => deleteEndedSessions(answering(db, { count: 0 })),
    },
  }
  const scanned = ['accounts', 'principals', 'api_keys', 'outbox', 'dashboard_sessions', 'identities', month].join('|')
  for (const [what, { by, ask, statements: count }] of Object.entries(statements)) {
    test(`${what} uses an index, with any statistics of PostgreSQL`, async () => {
      for (const plan of await plansOf(ask, count)) {
        for (const sign of by) assert.match(plan, new RegExp(sign), plan)
        assert.doesNotMatch(plan, new RegExp(`Seq Scan on (${scanned})\\b`), plan)
      }
    })
  }

  test('the plan check can fail: without its index, a query is seen to scan', async () => {
    const [plan] = await plansOf((db) =>
      db.query({ text: 'select id from api_keys where description = $1', values: [randomBytes(4).toString('hex')] }),
    )
    assert.match(plan ?? '', /Seq Scan on api_keys/)
  })
})
