import { breaking, everyTest } from '../access/tests/judge.ts'
import { many } from '../db/pool.ts'
import { sql } from '../db/sql.ts'
import type { Difference, Rehearse } from '../http/dry_run.ts'
import { rehearseForImpact } from './impact.ts'
import { toFailed } from './shown_tests.ts'
import { unusualIn } from './unusual_changes.ts'

/** Position that migration 0068 gives to events of a dry run. */
const dryRunPosition = -1

/**
 * Makes the change with all its checks and rolls it back. The result comes from its audit events, which exist for every
 * change and contain only what the account may see. Omits events of other accounts, such as the one that loses a
 * verified domain.
 */
export const rehearseChange: Rehearse = (db, { accountId, caller }, work, judging) => {
  const { unusualAbove, isTested, now, edges, uri } = judging
  return rehearseForImpact(db, { caller, now, edges, uri }, async (rehearsal) => {
    const { result: done, broken } = isTested
      ? await breaking(rehearsal, { accountId, now, touched: everyTest }, () => work(rehearsal))
      : { result: await work(rehearsal), broken: [] }
    const differences = await many<Difference>(
      rehearsal,
      sql`
      select resource_id as resource, before, after from audit_events
      where account_id = ${accountId} and position = ${dryRunPosition} order by id`,
    )
    const unusual = unusualAbove ? await unusualIn(rehearsal, { accountId }, differences, unusualAbove) : []
    return { done, differences, unusual, failedAccessTests: broken.map(toFailed) }
  })
}
