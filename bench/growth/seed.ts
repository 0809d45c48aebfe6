// An account with so many rows in every table that a list or a report reads.
import { repairRollUps } from '../../src/access/evidence/roll_ups.ts'
import { bootstrapAccount } from '../../src/commands/accounts/bootstrap.ts'
import { type DbPool, run } from '../../src/db/pool.ts'
import { type SqlFragment, sql } from '../../src/db/sql.ts'
import { newUuid, toId, toUuid, type Uuid } from '../../src/kernel/ids.ts'

export type Grown = Awaited<ReturnType<typeof growAccount>>

/** As newUuid() makes them, spread over the last 30 days: by number, the highest is the newest. */
const idOf = (n: SqlFragment, rows: number) => sql`
  (lpad(to_hex((extract(epoch from now()) * 1000 - (${rows} - ${n}) * (2592000000.0 / ${rows}))::bigint), 12, '0')
    || '7' || substr(md5(${n}::text), 1, 3) || '8' || substr(md5(${n}::text), 4, 15))::uuid`

/** `rows` of everything, of as many addresses as an impact evaluates, or of a tenth if that is more. */
export async function growAccount(db: DbPool, name: string, rows: number) {
  const wanted = { accountName: name, adminName: 'Ada', adminEmail: 'ada@example.com' }
  const { accountId, adminId, token } = await bootstrapAccount(db, wanted, 'http://127.0.0.1')
  const account = toUuid(accountId)
  const addresses = Math.max(10_000, rows / 10)
  const [policy, apiPolicy, rules, destination] = [newUuid(), newUuid(), newUuid(), newUuid()]
  const restrictions = ['api', 'api', 'endpoints'].map((type) => ({ id: newUuid(), type }))
  const edges = Array.from({ length: 5 }, () => newUuid())
  for (const id of [policy, apiPolicy, rules])
    await run(db, sql`insert into ip_policies (account_id, id) values (${account}, ${id})`)
  for (const { id, type } of restrictions) {
    await run(
      db,
      sql`insert into ip_restrictions (account_id, id, type, enforced) values (${account}, ${id}, ${type}, false)`,
    )
    await run(
      db,
      sql`
      insert into ip_restriction_policies (account_id, ip_restriction_id, ip_policy_id, position)
      select ${account}, ${id}, policy.id, policy.position
      from (values (${policy}::uuid, 0, true), (${apiPolicy}::uuid, 1, ${type === 'api'})) as policy (id, position, attached)
      where attached`,
    )
  }
  for (const id of edges) await run(db, sql`insert into edges (account_id, id, kind) values (${account}, ${id}, 'tcp')`)
  await run(
    db,
    sql`
    insert into webhook_destinations (account_id, id, url, operations, enabled, sealed_secret, secret_key_id)
    values (${account}, ${destination}, 'https://example.com/', '{*}', false, '\\x00', '0000000000000000')`,
  )
  await run(
    db,
    sql`
    insert into webhook_progress (account_id, destination_id, position, event_id)
    values (${account}, ${destination}, 0, ${newUuid()})`,
  )
  const ids = {
    account,
    admin: toUuid(adminId),
    rules,
    destination,
    edges,
    restrictions: restrictions.map(({ id }) => id),
  }
  for (const insert of inserts(ids, rows, addresses)) await run(db, insert)
  await repairRollUps(db)
  return {
    token,
    rows,
    admin: adminId,
    policy: toId('ipp', policy),
    /** Decides about calls of the API alone. */
    apiPolicy: toId('ipp', apiPolicy),
    rules: toId('ipp', rules),
    restriction: toId('ipx', ids.restrictions[0] as Uuid),
    destination: toId('whd', destination),
  }
}

type Ids = {
  account: Uuid
  admin: Uuid
  rules: Uuid
  destination: Uuid
  edges: readonly Uuid[]
  restrictions: readonly Uuid[]
}

function inserts({ account, admin, rules, destination, edges, restrictions }: Ids, rows: number, addresses: number) {
  const numbers = sql`generate_series(1, ${rows}) n`
  const id = idOf(sql`n`, rows)
  // Every hour of 30 days has its share of the rows.
  const hour = sql`date_trunc('hour', now()) - (n % 720) * interval '1 hour'`
  const address = sql`'10.0.0.0'::inet + (n::bigint * 7919 % ${addresses})`
  const outcome = sql`case n % 2 when 0 then 'warned' else 'refused' end`
  return [
    sql`
    insert into api_keys (account_id, id, owner_id, owner_kind, token_hash, description, scopes)
    select ${account}::uuid, ${id}, ${admin}::uuid, 'user', sha256((${account} || n)::bytea), 'key ' || n, '{*}' from ${numbers}`,
    sql`
    insert into audit_events (account_id, id, operation, operation_id, owner_id, source_ip, resource_id, after, position)
    select ${account}::uuid, ${id}, (array['api_keys.create', 'api_keys.update', 'ip_policies.create'])[1 + n % 3], 'op_' || n,
      (array['usr_1', 'usr_2'])[1 + n % 2], '192.0.2.1', 'ak_' || n % 1000, '{"description": "x"}', n
    from ${numbers}`,
    sql`
    insert into ip_refusals (account_id, id, created_at, type, operation, source_ip, ip_restriction_id)
    select ${account}::uuid, ${id}, now() - (${rows} - n) * interval '1 second', 'api', 'api_keys.list', '192.0.2.1', ${newUuid()}::uuid
    from ${numbers}`,
    sql`
    insert into ip_policy_rules (account_id, id, ip_policy_id, cidr, action)
    select ${account}::uuid, ${id}, ${rules}::uuid, ('10.0.0.0'::inet + n)::cidr, 'allow' from ${numbers}`,
    sql`
    insert into webhook_deliveries (account_id, destination_id, event_id, position, operation, resource_id, status)
    select ${account}::uuid, ${destination}::uuid, ${id}, n, 'api_keys.create', 'ak_' || n, 'delivered' from ${numbers}`,
    sql`
    insert into ip_restriction_counts (account_id, ip_restriction_id, hour, source_ip, outcome, count, last_at, last_api_key_id)
    select ${account}::uuid, (${restrictions}::uuid[])[1 + n % 3], ${hour}, ${address}, ${outcome}, 1 + n % 9,
      ${hour} + (n % 3600) * interval '1 second', 'ak_1'
    from ${numbers} on conflict do nothing`,
    sql`
    insert into edge_counts (account_id, edge_id, hour, source_ip, outcome, by_module, count, last_at)
    select ${account}::uuid, (${edges}::uuid[])[1 + n % 5], ${hour}, ${address}, ${outcome}, n % 3 = 0, 1 + n % 9,
      ${hour} + (n % 3600) * interval '1 second'
    from ${numbers} on conflict do nothing`,
    sql`
    insert into seen_addresses (account_id, type, ip, first_seen_at, last_seen_at)
    select ${account}::uuid, 'api', '10.200.0.0'::inet + n, now(), now() - (n % 150) * interval '1 hour'
    from generate_series(1, least(10000, ${rows})) n`,
  ]
}
