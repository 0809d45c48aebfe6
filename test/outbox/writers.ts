import assert from 'node:assert/strict'
import { randomInt, randomUUID } from 'node:crypto'
import { type Db, type DbPool, many, one, queryOn } from '../../src/db/pool.ts'
import { sql } from '../../src/db/sql.ts'
import type { RecordKey } from '../../src/distribution/records.ts'
import { type Id, toUuid, type Uuid } from '../../src/kernel/ids.ts'
import { writeOutbox } from '../../src/operations/outbox.ts'
import type { Answer } from '../harness/client.ts'
import type { Account } from '../harness/control_plane.ts'
import { pause } from '../harness/poll.ts'

/** What was acknowledged: by COMMIT, or by an answer with a Service-Generation. */
export type Ledger = {
  committed: Map<number, RecordKey[]>
  rolledBack: Set<number>
  /** Operation id by generation. */
  answered: Map<number, string>
  /** Answers that must have left nothing behind. */
  unchanged: Set<string>
  slow: number
}
export const newLedger = (): Ledger => ({
  committed: new Map(),
  rolledBack: new Set(),
  answered: new Map(),
  unchanged: new Set(),
  slow: 0,
})

/** Transactions of our own: some end late, some are rolled back, and some change several records at once. */
export async function writeStraight(pool: DbPool, account: Uuid, ledger: Ledger, goOn: () => boolean): Promise<void> {
  const client = await pool.connect()
  const tx: Db = { query: (statement) => queryOn(client, statement) }
  try {
    while (goOn()) {
      const keys = Array.from({ length: randomInt(1, 6) }, () => `backend.${randomUUID()}` as const)
      await client.query('begin')
      const generation = await writeOutbox(tx, account, keys)
      if (randomInt(4) === 0) {
        ledger.slow++
        await pause(randomInt(50, 501))
      }
      if (randomInt(5) === 0) {
        await client.query('rollback')
        ledger.rolledBack.add(generation)
      } else {
        await client.query('commit')
        ledger.committed.set(generation, keys)
      }
      await pause(randomInt(10))
    }
  } finally {
    client.release()
  }
}

/** Changes through the API, among requests that change nothing: refused ones, repeated ones and such that only read. */
export async function writeThroughApi(admin: Account, ledger: Ledger, goOn: () => boolean): Promise<void> {
  const note = async (pending: Promise<Answer>, changes: boolean): Promise<Answer> => {
    const answer = await pending
    const generation = answer.headers.get('service-generation')
    assert.equal(generation !== null, changes, `${answer.status} ${answer.text}`)
    const operationId = answer.headers.get('operation-id') ?? ''
    if (changes) ledger.answered.set(Number(generation), operationId)
    else ledger.unchanged.add(operationId)
    return answer
  }
  const changed = (pending: Promise<Answer>) => note(pending, true)
  const same = (pending: Promise<Answer>) => note(pending, false)
  const hostport = `${randomUUID()}.example:20001`
  await changed(admin('POST', '/edges/tcp', { hostports: [hostport] }))
  const { body: policy } = await changed(admin('POST', '/ip_policies', {}))
  const { body: backend } = await changed(admin('POST', '/backends/static', { address: 'app:1' }))
  while (goOn()) {
    const { body: edge } = await changed(admin('POST', '/edges/tcp', { backend: { backend_id: backend.id } }))
    await changed(admin('PUT', `${edge.uri}/ip_restriction`, { ip_policy_ids: [policy.id] }))
    await same(admin('PUT', `${edge.uri}/ip_restriction`, { ip_policy_ids: [policy.id] }))
    await same(admin('PATCH', edge.uri, { description: 'lost', hostports: [hostport] }))
    await same(admin('DELETE', policy.uri))
    await changed(admin('PATCH', backend.uri, { address: `app:${randomInt(1, 65_536)}`, description: randomUUID() }))
    await same(admin('PATCH', edge.uri, {}))
    await changed(admin('DELETE', edge.uri))
    const { body: https } = await changed(admin('POST', '/edges/https', {}))
    for (const match of ['/a', '/b', '/c']) {
      const { body: route } = await changed(admin('POST', `${https.uri}/routes`, { match_type: 'exact_path', match }))
      await same(admin('GET', route.uri))
    }
    // One generation with several records: the edge and all its routes.
    await changed(admin('DELETE', https.uri))
  }
}

/** What of the ledger and the tables does not agree, in words. */
export async function compareWithTables(db: DbPool, accounts: { straight: Uuid; api: Account }, ledger: Ledger) {
  const faults: string[] = []
  const rowsOf = (account: Uuid) =>
    many<{ generation: number; key: RecordKey }>(
      db,
      sql`select generation, key from outbox where account_id = ${account} order by generation, key`,
    )
  const expected = [...ledger.committed].flatMap(([generation, keys]) => keys.map((key) => `${generation} ${key}`))
  const straight = (await rowsOf(accounts.straight)).map(({ generation, key }) => `${generation} ${key}`)
  for (const missing of new Set(expected).difference(new Set(straight)))
    faults.push(`committed and not there: ${missing}`)
  for (const extra of new Set(straight).difference(new Set(expected))) faults.push(`there and not committed: ${extra}`)

  const api = toUuid(accounts.api.accountId as Id)
  const generations = new Set((await rowsOf(api)).map(({ generation }) => generation))
  const answered = new Set(ledger.answered.keys())
  for (const missing of answered.difference(generations)) faults.push(`answered and not in the outbox: ${missing}`)
  for (const extra of generations.difference(answered)) faults.push(`in the outbox and never answered: ${extra}`)

  const events = await many<{ operation_id: string; count: number }>(
    db,
    sql`select operation_id, count(*) as count from audit_events where account_id = ${api} and owner_id is not null group by 1`,
  )
  const audited = new Map(events.map(({ operation_id, count }) => [operation_id, count]))
  for (const operationId of ledger.answered.values())
    if (audited.get(operationId) !== 1) faults.push(`${operationId} has ${audited.get(operationId) ?? 0} audit events`)
  const operations = new Set(ledger.answered.values())
  for (const extra of new Set(audited.keys()).difference(operations))
    faults.push(`an audit event without a change: ${extra}`)
  return faults
}

export const lastGeneration = async (db: DbPool): Promise<number> =>
  (await one<{ last: number }>(db, sql`select coalesce(max(generation), 0) as last from outbox`)).last
