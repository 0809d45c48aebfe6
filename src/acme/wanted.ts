import type { Db } from '../db/pool.ts'
import { toId } from '../kernel/ids.ts'
import { findReservedDomain, isHeld, type ReservedDomainRow } from '../resources/reserved_domains/store.ts'
import { assertLease, type LeasedOrder } from './order_leases.ts'
import { Unmet } from './problems.ts'

export const unverified = (domain: string) =>
  new Unmet('unverified', `${domain} is not verified. Publish its TXT record and verify it first`)

/**
 * Asserts, in the publishing transaction, that the account still holds the domain and wants its certificate managed,
 * and that we hold the lease. Locks all of it until the transaction ends.
 */
export async function assertWanted(tx: Db, leased: LeasedOrder): Promise<ReservedDomainRow> {
  const row = await findReservedDomain(tx, { accountId: leased.account_id }, toId('rd', leased.domain_id), true)
  await assertLease(tx, leased)
  if (!row || !isHeld(row.status)) throw unverified(leased.domain)
  return row
}
