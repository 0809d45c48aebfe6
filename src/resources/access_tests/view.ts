import { evaluateTests, resultOf } from '../../access/tests/evaluate.ts'
import { type AccessTestRow, loadTests } from '../../access/tests/load.ts'
import { isUnavailable } from '../../db/failures.ts'
import { sql } from '../../db/sql.ts'
import { snapshot } from '../../db/transaction.ts'
import { toId, toUuid } from '../../kernel/ids.ts'
import { shownAnnotations } from '../../operations/annotations.ts'
import type { StatusRequest } from '../../operations/resource.ts'
import { shownTarget } from '../../operations/shown_tests.ts'
import type { AccessTest } from './schema.ts'

const notLookedUp = {
  result: 'unknown',
  outcome: 'unknown',
  reason: 'the database did not answer, so it is not known',
} as const

/** Leaves the result empty; `resultsOf` adds it. */
export function toAccessTest(row: AccessTestRow, uri: (path: string) => string): AccessTest {
  const id = toId('act', row.id)
  return {
    id,
    uri: uri(`/access_tests/${id}`),
    created_at: row.created_at,
    ...shownAnnotations(row),
    address: row.address,
    target: shownTarget(row),
    expect: row.expect,
    ...notLookedUp,
  }
}

/** Fields that only a change alters. */
export const stableTestFields = ({ result: _, outcome: __, reason: ___, ...fields }: AccessTest): object => fields

/** Results for a whole page, from one snapshot. */
export async function resultsOf(
  { db, caller, clock, noteStatusUnread }: StatusRequest,
  shown: readonly AccessTest[],
): Promise<(each: AccessTest) => Pick<AccessTest, 'result' | 'outcome' | 'reason'>> {
  const ids = shown.map(({ id }) => toUuid(id))
  try {
    const evaluated = await snapshot(db, async (tx) =>
      evaluateTests(tx, caller.accountId, await loadTests(tx, caller.accountId, sql`t.id = any(${ids})`), clock()),
    )
    const results = new Map(
      evaluated.map((each) => [toId('act', each.test.id), { result: resultOf(each), ...each.is }] as const),
    )
    return ({ id }) => results.get(id) ?? notLookedUp
  } catch (error) {
    if (!isUnavailable(error)) throw error
    noteStatusUnread((error as Error).message)
    return () => notLookedUp
  }
}
