import type { Db } from '../db/pool.ts'
import { toId } from '../kernel/ids.ts'
import { findReservedDomain, isHeld, type ReservedDomainRow } from '../resources/reserved_domains/store.ts'
import { assertLease, type LeasedOrder } from './order_leases.ts'
import { Unmet } from './problems.ts'

export const unverified = (domain: string) =>
  new Unmet('unverified', `${domain} is not verified. Publish its TXT record and verify it first`)

/**
 * In the transaction that publishes to nodes: the account still holds the domain, wants its certificate managed, and no other
 * process works on it. It stays so until the transaction ends.
 */
export async function assertWanted(tx: Db, leased: LeasedOrder): Promise<ReservedDomainRow> {
  const row = await findReservedDomain(tx, { accountId: leased.account_id }, toId('rd', leased.domain_id), true)
  await assertLease(tx, leased)
  if (!row || !isHeld(row.status)) throw unverified(leased.domain)
  return row
}
