import { lockItemInTransaction } from '../db/advisory_locks.ts'
import { type Db, one, run } from '../db/pool.ts'
import { type SqlFragment, sql } from '../db/sql.ts'
import type { Caller } from '../identity/caller.ts'
import { Refusal } from '../kernel/errors.ts'

const locks = { tls_certificates: 'certificatesOfAccount', reserved_domains: 'reservedDomainsOfAccount' } as const

/**
 * Refuses one more when the account has as many as it may have. Those who create for one account take turns, so that two at
 * once cannot pass the limit together.
 */
export async function limitPerAccount(
  tx: Db,
  { accountId }: Pick<Caller, 'accountId'>,
  { what, limit, called, present }: { what: keyof typeof locks; limit: number; called: string; present: SqlFragment },
): Promise<void> {
  await run(tx, sql`select ${lockItemInTransaction(locks[what], sql`hashtext(${accountId})`)}`)
  const { count } = await one<{ count: number }>(tx, sql`select count(*) from ${present}`)
  if (count < limit) return
  throw new Refusal(
    'ERR_TOO_MANY',
    `An account can have at most ${limit} ${called}. Delete those you no longer need, or ask the operator of the installation to raise the limit.`,
  )
}
