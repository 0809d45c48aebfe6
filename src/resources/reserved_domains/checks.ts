import type { Db } from '../../db/pool.ts'
import type { TxtAnswer } from '../../http/domains.ts'
import { rfc3339 } from '../../kernel/clock.ts'
import { challengeName } from '../../kernel/edge/domains.ts'
import { newId, toId } from '../../kernel/ids.ts'
import { recordChange } from '../../operations/audit.ts'
import { bindHostports, findOtherHolder, type ReservedDomainRow, type Standing, updateStanding } from './store.ts'
import { stableDomainFields, toReservedDomain } from './view.ts'

type When = { now: number; graceMs: number }

/**
 * Applies a DNS answer to a locked row. The answer contains the values of all accounts, so it also decides between
 * them: the holder loses the domain if its value is gone and another account's value is there.
 */
export async function applyAnswer(
  tx: Db,
  row: ReservedDomainRow,
  answer: TxtAnswer,
  { now, graceMs }: When,
): Promise<ReservedDomainRow> {
  if (row.status === 'assigned') return row
  if (!answer.values?.includes(row.challenge))
    return updateStanding(tx, row, withoutProof(row, answer, { now, graceMs }))
  await endOtherHold(tx, row, answer.values, now)
  const moment = rfc3339(now)
  const standing = { verified_at: moment, checked_at: moment, lapses_at: null, error: null }
  const held = await updateStanding(tx, row, { status: 'verified', ...standing })
  await bindHostports(tx, held)
  return held
}

/**
 * Only an answer without the value counts against the account, because DNS may be unavailable for longer than any grace
 * period.
 */
function withoutProof(row: ReservedDomainRow, answer: TxtAnswer, { now, graceMs }: When): Standing {
  const { status, verified_at, lapses_at } = row
  const unchanged = { status, verified_at, lapses_at, checked_at: rfc3339(now), error: faultOf(row, answer) }
  if (answer.values === undefined && !answer.answered) return unchanged
  if (status === 'verified') return { ...unchanged, status: 'failing', lapses_at: rfc3339(now + graceMs) }
  if (status === 'failing' && Date.parse(lapses_at ?? '') <= now)
    return { ...unchanged, status: 'lapsed', lapses_at: null }
  return unchanged
}

function faultOf({ domain }: ReservedDomainRow, answer: TxtAnswer): string {
  const name = challengeName(domain)
  if (!answer.values) return `The TXT record ${name} ${answer.fault}.`
  const count = answer.values.length
  return `The TXT record ${name} has ${count === 1 ? 'another value' : `${count} values, none of which is the expected one`}. If you have just changed it, DNS servers may remember the old one for a while.`
}

/** Leaves domains alone that the operator has assigned. */
async function endOtherHold(tx: Db, row: ReservedDomainRow, values: readonly string[], now: number): Promise<void> {
  const other = await findOtherHolder(tx, row)
  if (!other || other.status === 'assigned' || values.includes(other.challenge)) return
  const error = `The TXT record ${challengeName(row.domain)} has gone, and another account has published its own.`
  const after = await updateStanding(tx, other, {
    status: 'lapsed',
    verified_at: other.verified_at,
    lapses_at: null,
    checked_at: rfc3339(now),
    error,
  })
  await recordStanding(tx, 'server.domains.lapse', other, after)
}

/** Audits the change in the account, which did not make it itself. A check without a change writes nothing. */
export async function recordStanding(
  tx: Db,
  operation: string,
  before: ReservedDomainRow,
  after: ReservedDomainRow,
): Promise<void> {
  const fields = (row: ReservedDomainRow) => stableDomainFields(toReservedDomain(row, (path) => path))
  await recordChange(
    tx,
    { accountId: before.account_id, operation, operationId: newId('op') },
    { resourceId: toId('rd', before.id), before: fields(before), after: fields(after) },
  )
}
