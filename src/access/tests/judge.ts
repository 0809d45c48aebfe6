import { lockItemInTransaction } from '../../db/advisory_locks.ts'
import { violates } from '../../db/failures.ts'
import { type Db, type DbPool, later, run } from '../../db/pool.ts'
import { type SqlFragment, sql } from '../../db/sql.ts'
import { transaction } from '../../db/transaction.ts'
import { Refusal } from '../../kernel/errors.ts'
import { type Id, toId, type Uuid } from '../../kernel/ids.ts'
import { type Evaluated, evaluateTests, resultOf } from './evaluate.ts'
import { type AccessTestRow, idsOfTests, loadTests } from './load.ts'

/** A test that a change breaks: it passed before, or is new, and does not pass after it. */
export type Broken = Evaluated

/** Which tests a change can touch: a condition on `t`. */
export type Touched = SqlFragment
export const everyTest: Touched = sql`true`
/** The change decides about no address. */
export const noTest: Touched = sql`false`

type Question = {
  readonly accountId: Uuid
  readonly now: number
  readonly touched: Touched
  /** Throws if the change must not be made. It is then not made again. */
  readonly refuse?: (broken: readonly Broken[]) => void
}

/**
 * Makes a change and says which tests it breaks. Those that failed before do not count, except when what they are about is
 * deleted. Changes with others of the same account under way have to hold the lock (`judged`).
 *
 * Almost always nothing fails after a change, so what was before it is only looked at for tests that do: the change is undone,
 * and made again unless it is refused.
 */
export async function breaking<Result>(
  tx: Db,
  { accountId, now, touched, refuse }: Question,
  change: () => Promise<Result>,
): Promise<{ result: Result; broken: Broken[] }> {
  const failing = async (condition: SqlFragment) =>
    (await evaluateTests(tx, accountId, await loadTests(tx, accountId, condition), now)).filter(
      (each) => isWithoutTarget(each.test) || resultOf(each) !== 'passed',
    )
  // What is gone from its target is not found by it any more.
  const known = await idsOfTests(tx, accountId, touched)
  await later(tx, sql`savepoint before_change`)
  const result = await change()
  const touchedNow = sql`(${touched} or t.id = any(${known}))`
  const failed = await failing(touchedNow)
  if (failed.length === 0) return { result, broken: [] }
  await run(tx, sql`rollback to savepoint before_change`)
  const failedBefore = new Set(
    (await failing(sql`t.id = any(${failed.map(({ test }) => test.id)})`)).map(({ test }) => test.id),
  )
  const isBroken = ({ test }: Evaluated) => isWithoutTarget(test) || !failedBefore.has(test.id)
  const broken = failed.filter(isBroken)
  if (broken.length) refuse?.(broken)
  const madeAgain = await change()
  // What it creates has other ids now.
  return { result: madeAgain, broken: broken.length ? (await failing(touchedNow)).filter(isBroken) : [] }
}

const isWithoutTarget = ({ type, target_id }: AccessTestRow) =>
  (type === 'edge' || type === 'route') && target_id === null

export type Judging = Question & {
  /** The change creates or changes tests, so that there are some. */
  readonly isOfTests?: boolean
  /** Notes a change that breaks some and is made all the same. */
  readonly note: (tx: Db, broken: readonly Broken[]) => Promise<void>
}

/**
 * Runs a change in a transaction in which nothing else of the account changes what tests are about. Most accounts have no
 * tests: their changes run side by side, and PostgreSQL says with the first statement if there are any. Only then the change is
 * made again, with a look at the tests.
 *
 * As part of another transaction, a dry run or a change set, it is not judged here: that one is, as a whole.
 */
export async function judged<Result>(
  db: DbPool,
  judging: Judging,
  change: (tx: Db) => Promise<Result>,
): Promise<Result> {
  if (db.enclosing || judging.touched === noTest) return transaction(db, change)
  if (!judging.isOfTests)
    try {
      return await transaction(db, async (tx) => {
        await later(tx, sql`select begin_untested_change(${judging.accountId})`)
        return change(tx)
      })
    } catch (error) {
      if (!violates(error, 'access_tests_judge')) throw error
    }
  return transaction(db, (tx) => judgedAlone(tx, judging, () => change(tx)))
}

/** The same in a transaction that has begun: no other change of access is made until it ends. */
export async function judgedAlone<Result>(
  tx: Db,
  { note, ...judging }: Judging,
  change: () => Promise<Result>,
): Promise<Result> {
  await later(tx, sql`select ${lockItemInTransaction('access', sql`hashtext(${judging.accountId}::text)`)}`)
  const { result, broken } = await breaking(tx, judging, change)
  if (broken.length) await note(tx, broken)
  return result
}

const maxNamed = 3

/** The sentence about one: what it is, and what would become of it. */
export function sentenceOf({ test, is }: Broken): string {
  const { id, description, expect } = test
  const name = `${toId('act', id)}${description ? ` (${description})` : ''}`
  const what = is.outcome === 'unknown' ? 'cannot be decided' : `would be ${is.outcome}`
  return `${name}: ${test.address} must be ${expect} ${targetText(test)}, and ${what}: ${is.reason}`
}

function targetText({ type, target_id, path }: AccessTestRow): string {
  if (type === 'api') return 'by the API'
  if (type === 'dashboard') return 'by the dashboard'
  const id = target_id && toId(type === 'edge' ? 'edgtcp' : 'edghtsrt', target_id)
  return type === 'edge' ? `at ${id ?? 'a TCP edge'}` : `at ${path} of ${id ?? 'a route'}`
}

export function refusalOf(broken: readonly Broken[]): Refusal {
  const named = broken.slice(0, maxNamed).map(sentenceOf).join('; ')
  const more = broken.length > maxNamed ? `; and ${broken.length - maxNamed} more` : ''
  const ids = broken.map(({ test }): Id => toId('act', test.id))
  return new Refusal(
    'ERR_ACCESS_TEST_FAILED',
    `This would fail ${broken.length === 1 ? 'an access test' : `${broken.length} access tests`}. ${named}${more}. Change the test if it is out of date; an admin can repeat the request with ignore_access_tests=true.`,
    {
      details: {
        access_tests: ids.slice(0, 100).join(', '),
        failures: broken.slice(0, 20).map(sentenceOf).join('; '),
      },
    },
  )
}
