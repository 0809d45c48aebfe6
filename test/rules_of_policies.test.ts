// Rules have a policy of their account, and go with it, even in races (docs/adr/0080). On plain connections: the API holds
// the policy before it changes a rule, and would hide a fault.
import assert from 'node:assert/strict'
import { after, beforeEach, test } from 'node:test'
import pg from 'pg'
import { asAppRole } from '../dev/app_role.ts'
import { newUuid } from '../src/kernel/ids.ts'
import { newDatabase } from './harness/control_plane.ts'
import { poll } from './harness/poll.ts'

const url = await newDatabase()
const connect = async (connectionString: string) => {
  const client = new pg.Client({ connectionString })
  await client.connect()
  after(() => client.end())
  return client
}
const [one, other, observer] = [await connect(asAppRole(url)), await connect(asAppRole(url)), await connect(url)]

let account: string
let policy: string
beforeEach(async () => {
  account = newUuid()
  await observer.query(`insert into accounts (id, name) values ($1, 'test ' || $1::uuid)`, [account])
  policy = await newPolicy()
})

async function newPolicy(of = account): Promise<string> {
  const id = newUuid()
  await observer.query('insert into ip_policies (account_id, id) values ($1, $2)', [of, id])
  return id
}

const addRules = (client: pg.Client, to = policy, of = account) =>
  client.query(
    `insert into ip_policy_rules (account_id, id, ip_policy_id, cidr, action)
     select $1, gen_random_uuid(), $2, ('10.0.0.0'::inet + n)::cidr, 'allow' from generate_series(1, 3) n`,
    [of, to],
  )
const deletePolicy = (client: pg.Client) =>
  client.query('delete from ip_policies where account_id = $1 and id = $2', [account, policy])
const rulesOf = async (id = policy) =>
  (await observer.query('select from ip_policy_rules where ip_policy_id = $1', [id])).rowCount
const violation = { code: '23503', constraint: 'ip_policy_rules_policy_fk' }

/** Resolves when the server process of a connection waits for a lock. */
async function waitsForLock(client: pg.Client): Promise<void> {
  const { processID } = client as unknown as { processID: number }
  await poll(
    async () =>
      (await observer.query('select wait_event_type as type from pg_stat_activity where pid = $1', [processID]))
        .rows[0],
    ({ type }) => type === 'Lock',
  )
}

test('a rule of a policy that does not exist, or that belongs to another account, is refused', async () => {
  await assert.rejects(addRules(one, newUuid()), violation)
  await assert.rejects(addRules(one, policy, newUuid()), violation)
  const stranger = newUuid()
  await observer.query(`insert into accounts (id, name) values ($1, 'stranger ' || $1::uuid)`, [stranger])
  await assert.rejects(addRules(one, await newPolicy(stranger)), violation)
  assert.equal(await rulesOf(), 0)
})

test('one rule without a policy rejects all of its statement', async () => {
  const rows = `insert into ip_policy_rules (account_id, id, ip_policy_id, cidr, action)
    select $1, gen_random_uuid(), p, '10.0.0.1', 'allow' from unnest($2::uuid[]) p`
  await assert.rejects(one.query(rows, [account, [policy, newUuid(), await newPolicy()]]), violation)
  assert.equal(await rulesOf(), 0)
})

test('a rule cannot be moved to a policy that does not exist', async () => {
  await addRules(one)
  const move = (to: string) =>
    one.query('update ip_policy_rules set ip_policy_id = $2 where ip_policy_id = $1', [policy, to])
  await assert.rejects(move(newUuid()), violation)
  assert.equal(await rulesOf(), 3)
  const next = await newPolicy()
  await move(next)
  assert.equal(await rulesOf(next), 3)
})

test('deleting a policy deletes its rules and no others', async () => {
  const neighbor = await newPolicy()
  await addRules(one)
  await addRules(one, neighbor)
  await deletePolicy(one)
  assert.deepEqual([await rulesOf(), await rulesOf(neighbor)], [0, 3])
})

test('rules that are added while their policy is deleted are refused', async () => {
  await one.query('begin')
  await deletePolicy(one)
  const adding = assert.rejects(addRules(other), violation)
  await waitsForLock(other)
  await one.query('commit')
  await adding
  assert.equal(await rulesOf(), 0)
})

test('rules that are added while a deletion of their policy fails are kept', async () => {
  await one.query('begin')
  await deletePolicy(one)
  const adding = addRules(other)
  await waitsForLock(other)
  await one.query('rollback')
  await adding
  assert.equal(await rulesOf(), 3)
})

test('deleting a policy waits for rules that are being added, and deletes them too', async () => {
  await one.query('begin')
  await addRules(one)
  const deleting = deletePolicy(other)
  await waitsForLock(other)
  await one.query('commit')
  await deleting
  assert.equal(await rulesOf(), 0)
})

test('transactions that add rules to one policy do not wait for each other', async () => {
  await one.query('begin')
  await addRules(one)
  await other.query(
    `insert into ip_policy_rules (account_id, id, ip_policy_id, cidr, action) values ($1, $2, $3, '::1', 'deny')`,
    [account, newUuid(), policy],
  )
  await one.query('commit')
  assert.equal(await rulesOf(), 4)
})

test('a transaction that would not see new rules cannot delete a policy', async () => {
  await one.query('begin isolation level repeatable read')
  await one.query('select from ip_policies')
  await addRules(other)
  await assert.rejects(deletePolicy(one), /must be deleted in a read committed transaction/)
  await one.query('rollback')
  assert.equal(await rulesOf(), 3)
})

test('a policy keeps its id and account, and policies cannot be truncated', async () => {
  for (const column of ['id', 'account_id'])
    await assert.rejects(
      observer.query(`update ip_policies set ${column} = gen_random_uuid() where id = $1`, [policy]),
      /without a policy/,
    )
  await assert.rejects(observer.query('truncate ip_policies cascade'), /without a policy/)
  await observer.query('update ip_policies set id = id, account_id = account_id where id = $1', [policy])
})

test('a table with the same name that the caller owns is not taken for the policies', async () => {
  await observer.query('create temporary table ip_policies (account_id uuid, id uuid)')
  const unknown = newUuid()
  await observer.query('insert into pg_temp.ip_policies values ($1, $2)', [account, unknown])
  await assert.rejects(addRules(observer, unknown), violation)
  await observer.query('drop table pg_temp.ip_policies')
})
