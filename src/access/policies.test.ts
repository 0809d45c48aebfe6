import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { newDatabase } from '../../test/harness/control_plane.ts'
import { type DbPool, many, openPool } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import { newUuid, type Uuid } from '../kernel/ids.ts'
import { type Address, parseAddress } from '../kernel/ip/address.ts'
import { lookup } from '../kernel/ip/ranges.ts'
import { type LoadedPolicy, loadPolicy, ruleIdAt } from './policies.ts'

const pool = openPool(
  { url: await newDatabase(), poolSize: 4, connectTimeoutMs: 60_000, statementTimeoutMs: 60_000 },
  () => {},
)
after(() => pool.end())

const accountId = newUuid()
await many(pool, sql`insert into accounts (id, name) values (${accountId}, 'large')`)

/** Single addresses with one between each, far more than one statement reads; IPv6 after IPv4. */
async function newLargePolicy(): Promise<Uuid> {
  const policy = newUuid()
  await many(pool, sql`insert into ip_policies (account_id, id) values (${accountId}, ${policy})`)
  for (const first of ['10.0.0.0', '2001:db8::'])
    await many(
      pool,
      sql`insert into ip_policy_rules (account_id, id, ip_policy_id, action, cidr)
      select ${accountId}, gen_random_uuid(), ${policy}, 'allow', (${first}::inet + n * 2)::cidr from generate_series(0, 69999) n`,
    )
  return policy
}
const policy = await newLargePolicy()

async function ruleThatDecides(loaded: LoadedPolicy | undefined, ip: string): Promise<string | undefined> {
  assert.ok(loaded)
  const match = lookup(loaded.ranges, parseAddress(ip) as Address)
  if (!match) return undefined
  const id = ruleIdAt(loaded, match.rule)
  const [rule] = await many<{ cidr: string }>(
    pool,
    sql`select host(cidr) as cidr from ip_policy_rules where id = ${id}`,
  )
  return rule?.cidr
}

test('a policy that takes several reads is loaded completely, each rule under its own id', async () => {
  const loaded = await loadPolicy(pool, accountId, policy, Date.now())
  assert.equal(loaded?.ruleIds.length, 140_000 * 16)
  // The first and the last of each family, and both sides of where one read ends and the next begins.
  for (const ip of ['10.0.0.0', '10.1.134.158', '10.1.134.160', '10.2.34.222', '2001:db8::', '2001:db8::2:22de'])
    assert.equal(await ruleThatDecides(loaded, ip), ip)
  for (const ip of ['10.0.0.1', '10.1.134.159', '10.2.34.224', '2001:db8::1', '2001:db8::2:22e0'])
    assert.equal(await ruleThatDecides(loaded, ip), undefined)
})

test('a change between two reads of a policy is never half applied', async () => {
  let reads = 0
  const changing: DbPool = {
    ...pool,
    async connect() {
      const client = await pool.connect()
      const { query } = client
      const changingQuery = async (...args: unknown[]) => {
        const statement = args[0] as { text?: string }
        if (statement.text?.includes('ip_policy_rules') && ++reads === 2) {
          // Moves a rule from a part that is not read yet to one that is.
          await many(pool, sql`delete from ip_policy_rules where ip_policy_id = ${policy} and cidr = '2001:db8::2'`)
          await many(
            pool,
            sql`insert into ip_policy_rules (account_id, id, ip_policy_id, action, cidr)
            values (${accountId}, ${newUuid()}, ${policy}, 'deny', '10.0.0.0/30')`,
          )
        }
        return (query as (...args: unknown[]) => unknown).apply(client, args)
      }
      return Object.assign(client, { query: changingQuery })
    },
  }
  const loaded = await loadPolicy(changing, accountId, policy, Date.now())
  assert.ok(reads > 1)
  assert.equal(await ruleThatDecides(loaded, '10.0.0.0'), '10.0.0.0')
  const match = loaded && lookup(loaded.ranges, parseAddress('2001:db8::2') as Address)
  assert.equal(match?.action, 'allow')
})
