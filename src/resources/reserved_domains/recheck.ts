import type { DbPool } from '../../db/pool.ts'
import { transaction } from '../../db/transaction.ts'
import type { DomainService } from '../../http/domains.ts'
import { type Clock, rfc3339 } from '../../kernel/clock.ts'
import { challengeName } from '../../kernel/edge/domains.ts'
import { toId } from '../../kernel/ids.ts'
import { applyAnswer, recordStanding } from './checks.ts'
import { findReservedDomain, type ReservedDomainRow, takeUnchecked } from './store.ts'

const hourMs = 60 * 60 * 1_000
/** Failing domains are checked more often: one whose record has returned should not wait for a day. */
const verifiedEveryMs = 24 * hourMs
const failingEveryMs = hourMs / 2
const batch = 10
/** Per run. The rest comes first in the next run. */
const maxChecks = 5_000

/** Resolves to domains whose status changed. Several processes may run it; each domain is checked by one. */
export async function recheckDomains(
  db: DbPool,
  domains: Pick<DomainService, 'lookUpTxt' | 'graceMs'>,
  clock: Clock,
): Promise<ReservedDomainRow[]> {
  const changed: ReservedDomainRow[] = []
  for (let checked = 0; checked < maxChecks; checked += batch) {
    const now = clock()
    const before = { verified: rfc3339(now - verifiedEveryMs), failing: rfc3339(now - failingEveryMs) }
    const due = await takeUnchecked(db, before, rfc3339(now), batch)
    const rows = await Promise.all(due.map((row) => recheck(db, domains, clock, row)))
    changed.push(...rows.filter((row) => row !== undefined))
    if (due.length < batch) break
  }
  return changed
}

async function recheck(
  db: DbPool,
  { lookUpTxt, graceMs }: Pick<DomainService, 'lookUpTxt' | 'graceMs'>,
  clock: Clock,
  { account_id: accountId, id, domain }: ReservedDomainRow,
): Promise<ReservedDomainRow | undefined> {
  const answer = await lookUpTxt(challengeName(domain))
  return transaction(db, async (tx) => {
    const before = await findReservedDomain(tx, { accountId }, toId('rd', id), true)
    // Deleted or otherwise changed during the DNS query.
    if (before?.status !== 'verified' && before?.status !== 'failing') return undefined
    const after = await applyAnswer(tx, before, answer, { now: clock(), graceMs })
    await recordStanding(tx, 'server.domains.recheck', before, after)
    return after.status === before.status ? undefined : after
  })
}
