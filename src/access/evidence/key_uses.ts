import { inBatches } from '../../db/batches.ts'
import { type Db, run } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import { rfc3339 } from '../../kernel/clock.ts'
import type { Uuid } from '../../kernel/ids.ts'

export type ApiKeyUse = {
  accountId: Uuid
  apiKeyId: Uuid
  /** The hash of the token, when it is one that a rotation has replaced. */
  replacedToken?: Buffer
  sourceIp: string | null
  /** Start of the hour in milliseconds. */
  hour: number
}
type UseOfReplaced = ApiKeyUse & { replacedToken: Buffer }

/** Skips deleted keys, and replaced tokens that have since been replaced again. */
export async function addUses(db: Db, uses: readonly ApiKeyUse[]): Promise<void> {
  await run(
    db,
    // Sorted by id, as when an owner is deleted with all their keys; another order deadlocks.
    sql`
    insert into api_key_uses as known (account_id, api_key_id, last_used_at, last_used_ip)
    select k.account_id, k.id, s.hour, s.ip
    from (select distinct on (account_id, api_key_id) * from unnest(
        ${uses.map(({ accountId }) => accountId)}::uuid[], ${uses.map(({ apiKeyId }) => apiKeyId)}::uuid[],
        ${uses.map(({ sourceIp }) => sourceIp)}::inet[], ${uses.map(({ hour }) => rfc3339(hour))}::timestamptz[]
      ) with ordinality as u (account_id, api_key_id, ip, hour, place)
      order by account_id, api_key_id, hour desc, place desc) as s
      join api_keys k on k.account_id = s.account_id and k.id = s.api_key_id
    order by 1, 2
    for key share of k
    on conflict (account_id, api_key_id) do update set
      last_used_at = excluded.last_used_at, last_used_ip = excluded.last_used_ip
      where excluded.last_used_at >= known.last_used_at`,
  )
  const ofReplaced = uses.filter((use): use is UseOfReplaced => use.replacedToken !== undefined)
  if (ofReplaced.length) await addUsesOfReplaced(db, ofReplaced)
}

const addUsesOfReplaced = (db: Db, uses: readonly UseOfReplaced[]): Promise<void> =>
  run(
    db,
    sql`
    with held as (
      select t.account_id, t.api_key_id, s.hour, s.ip
      from unnest(
          ${uses.map(({ accountId }) => accountId)}::uuid[], ${uses.map(({ apiKeyId }) => apiKeyId)}::uuid[],
          ${uses.map(({ replacedToken }) => replacedToken)}::bytea[], ${uses.map(({ sourceIp }) => sourceIp)}::inet[],
          ${uses.map(({ hour }) => rfc3339(hour))}::timestamptz[]
        ) as s (account_id, api_key_id, token_hash, ip, hour)
        join api_key_previous_tokens t
          on t.account_id = s.account_id and t.api_key_id = s.api_key_id and t.token_hash = s.token_hash
      order by 1, 2
      for no key update of t
    )
    update api_key_previous_tokens t set last_used_at = held.hour, last_used_ip = held.ip
    from held
    where t.account_id = held.account_id and t.api_key_id = held.api_key_id
      and (t.last_used_at is null or t.last_used_at <= held.hour)`,
  )

/** Addresses are personal data: removes those of uses before the moment and keeps the time of the use. */
export async function forgetAddressesOfUses(db: Db, moment: number): Promise<void> {
  for (const table of [sql`api_key_uses`, sql`api_key_previous_tokens`])
    await inBatches(
      db,
      sql`select ctid from ${table} where last_used_at < ${rfc3339(moment)} and last_used_ip is not null`,
      (batch) => sql`update ${table} set last_used_ip = null where ctid = ${batch}`,
    )
}
