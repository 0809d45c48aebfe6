import { everyTest, judgedAlone } from '../../access/tests/judge.ts'
import type { DbPool } from '../../db/pool.ts'
import { together, transaction } from '../../db/transaction.ts'
import type { Handling, ServiceRequest } from '../../http/route.ts'
import { Refusal } from '../../kernel/errors.ts'
import { type Id, toId } from '../../kernel/ids.ts'
import { record } from '../../operations/change.ts'
import { noteIgnored } from '../../operations/decision_change.ts'
import { findAuditEvents } from '../audit_events/store.ts'
import { conflictsOf, type Made, makeChanges } from './make.ts'
import { draftOfRevert } from './revert.ts'
import { type ChangeSetRow, claimReverts, findChangeSet, insertChangeSet, markApplied, markReverted } from './store.ts'
import { lockOverdue, markRevertFailed, type Unconfirmed } from './unconfirmed_store.ts'
import { titleOfUndoOf } from './undo_title.ts'
import { stableChangeSetFields, toChangeSet } from './view.ts'

/** Operation name in the audit log of the automatic undo. */
export const revertUnconfirmed = 'change_sets.revert_unconfirmed'

/**
 * Refuses changes that could not be undone at the deadline. Tries the undo right after the changes, in the same
 * transaction and with the rights of the service.
 */
export async function refuseUnlessRevertible(
  { byService, db }: Pick<Handling<unknown, unknown, unknown>, 'byService' | 'db'>,
  { events }: Pick<Made, 'events'>,
): Promise<void> {
  const request = byService(db, revertUnconfirmed)
  try {
    await draftOfRevert(request, await findAuditEvents(db, request.caller, events))
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    throw new Refusal(
      'ERR_NOT_REVERSIBLE',
      `These changes could not be undone by themselves, so they cannot be applied with confirm_within_seconds. Nothing was changed. Leave out that change, or apply the change set without confirm_within_seconds. ${error.message}`,
      { details: { ...error.details, code: error.code }, cause: error },
    )
  }
}

export type Outcome = {
  readonly id: Id<'chs'>
  readonly state: 'reverted' | 'revert_failed'
  readonly reason: string
  readonly generation: number | undefined
}
type RequestFor = (db: DbPool, ownerId: Id<'usr' | 'bot'>) => ServiceRequest

/**
 * Undoes an unconfirmed change set, or records why that is impossible; then it stays and a person must decide. Resolves
 * to undefined if another process undid it or someone confirmed it.
 */
export async function undoOverdue(db: DbPool, due: Unconfirmed, requestFor: RequestFor): Promise<Outcome | undefined> {
  const requestOf = (on: DbPool, row: ChangeSetRow) => requestFor(on, row.applied_by as Id<'usr' | 'bot'>)
  try {
    const undone = async (on: DbPool) => {
      const row = await lockOverdue(on, due)
      return row && (await undo(requestOf(on, row), row))
    }
    return await together(db, undone, 'late')
  } catch (error) {
    if (!isFinal(error)) throw error
    return together(db, async (on) => {
      const row = await lockOverdue(on, due)
      if (!row) return undefined
      const reason = error.message
      await markRevertFailed(on, due, reason)
      await noteEnd(requestOf(on, row), row, { reason })
      return { id: toId('chs', row.id), state: 'revert_failed', reason, generation: undefined }
    })
  }
}

/** Other errors, such as an unavailable database, may be temporary. */
const isFinal = (error: unknown): error is Refusal =>
  error instanceof Refusal && ['ERR_REVERT_CONFLICT', 'ERR_NOT_REVERSIBLE', 'ERR_CHANGE_REFUSED'].includes(error.code)

/**
 * Restores the previous state even if access tests then fail: the changes may have locked out the person who applied
 * them.
 */
function undo(request: ServiceRequest, row: ChangeSetRow): Promise<Outcome> {
  const { db, caller, origin, clock } = request
  const id = toId('chs', row.id)
  const reason = `not confirmed by ${row.confirm_by}`
  return transaction(db, async (tx) => {
    const ids = row.applied_events ?? []
    const events = await findAuditEvents(tx, caller, ids)
    if (events.length < ids.length)
      throw new Refusal('ERR_NOT_REVERSIBLE', 'Audit events of its changes are past their retention.')
    let generation: number | undefined
    let revertedBy: Id<'chs'> | undefined
    if (events.length > 0) {
      const draft = await draftOfRevert(request, events)
      const judging = { accountId: caller.accountId, now: clock(), touched: everyTest }
      const made = await judgedAlone(
        tx,
        {
          ...judging,
          async note(_, broken) {
            for (const each of broken) await noteIgnored(tx, origin, each)
          },
        },
        () => makeChanges(db, request, draft.changes, { isProposal: true }),
      )
      const differing = conflictsOf(draft.base, made.base)
      if (differing.length)
        throw new Refusal(
          'ERR_REVERT_CONFLICT',
          `Undoing it had another effect than expected on ${differing.join(', ')}.`,
        )
      const description = `${titleOfUndoOf(row.description, events)}: ${reason}`
      const what = { description, metadata: null, reverts_id: id, ...draft, ...byItself }
      const undoing = await insertChangeSet(tx, caller, what)
      await claimReverts(tx, caller, undoing)
      generation = (await markApplied(tx, caller, undoing.id, made)).generation ?? undefined
      revertedBy = toId('chs', undoing.id)
    }
    await markReverted(tx, caller, id)
    await noteEnd(request, row, { reason, ...(revertedBy && { reverted_by_id: revertedBy }) })
    return { id, state: 'reverted', reason, generation }
  })
}

/** Needs no approval of its own; it was approved with the change that it undoes. */
const byItself = { state: 'draft', authors: [] } as const

async function noteEnd({ db, caller, origin, uri }: ServiceRequest, row: ChangeSetRow, why: object): Promise<void> {
  const id = toId('chs', row.id)
  const after = await findChangeSet(db, caller, id, false)
  const shown = (each: ChangeSetRow) => stableChangeSetFields(toChangeSet(each, uri))
  await record(db, origin, {
    resourceId: id,
    before: shown(row),
    after: { ...(after && shown(after)), ...why },
  })
}
