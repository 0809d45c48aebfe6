import type { Db } from '../../db/pool.ts'
import { isForApproval } from '../../http/approval/approval.ts'
import { permit } from '../../http/checks.ts'
import { type Handling, isSet } from '../../http/route.ts'
import { forbidden, Refusal } from '../../kernel/errors.ts'
import { type Id, isId, toId, toUuid, type Uuid } from '../../kernel/ids.ts'
import { holdersOfKeyOf } from '../api_keys/store.ts'
import { holdsActiveAdmin } from '../principals/store.ts'
import type { ChangeSetApprove } from './schema.ts'
import { type ChangeSetRow, isOpen, markApproved } from './store.ts'
import { contentSha256 } from './view.ts'

type Request = Pick<Handling<unknown, object, unknown>, 'caller' | 'routes'>

/** Whether any of these changes needs approval in the caller's account. */
export const areForApproval = ({ caller, routes }: Request, operations: readonly string[]): boolean =>
  operations.some((operation) => {
    const route = routes.get(operation)
    return route !== undefined && isForApproval(route, caller)
  })

/**
 * Records an admin's approval of exactly this content. Requires the right to make the changes, because the approval
 * enables them.
 */
export async function approved(
  tx: Db,
  { caller, routes, body }: Handling<{ readonly id: Id<'chs'> }, object, ChangeSetApprove>,
  row: ChangeSetRow,
): Promise<ChangeSetRow> {
  for (const operation of new Set(row.operations)) {
    const route = routes.get(operation)
    if (route) permit(route, caller)
  }
  if (!isId('usr', caller.ownerId))
    throw forbidden('Only a person can approve a change set. Ask an admin to sign in and approve it.')
  await refuseAuthors(tx, { caller }, row)
  if (body.content_sha256 !== contentSha256(row))
    throw new Refusal(
      'ERR_PRECONDITION_FAILED',
      'The change set has changed since you read it. Look at it again, and approve it with its current content_sha256.',
    )
  return row.approved_by === caller.ownerId ? row : markApproved(tx, caller, row.id, body.content_sha256)
}

/** Two keys count as two people only if no one could know both tokens. */
async function refuseAuthors(tx: Db, { caller }: Pick<Request, 'caller'>, row: ChangeSetRow): Promise<void> {
  const holders = await holdersOfKeyOf(tx, caller)
  const authors = authorsOf(row)
  if (authors.has(toUuid(caller.ownerId)))
    throw new Refusal('ERR_NOT_INDEPENDENT', 'You have made this change set. Another admin has to approve it.')
  if (holders.some((each) => authors.has(each)))
    throw new Refusal(
      'ERR_NOT_INDEPENDENT',
      'The key that you use, or the key that the change set was made with, was created or rotated by a person who could then do both. Sign in with your identity provider, or use a key that this person did not create, and approve it again.',
    )
}

const authorsOf = ({ authors, author_id }: ChangeSetRow): ReadonlySet<Uuid> =>
  new Set([...authors, toUuid(author_id as Id<'usr' | 'bot'>)])

/** Refuses changes that lack a required approval. Resolves to whether the caller bypasses it, and why. */
export async function checkApproval(
  tx: Db,
  request: Pick<Handling<unknown, object, unknown>, 'caller' | 'routes' | 'query' | 'breakGlass'>,
  row: ChangeSetRow,
): Promise<{ needsApproval: boolean; bypass?: string }> {
  if (!areForApproval(request, row.operations)) return { needsApproval: false }
  const fault = await faultOf(tx, request, row)
  if (fault === undefined) return { needsApproval: false }
  if (request.breakGlass !== undefined) return { needsApproval: false, bypass: request.breakGlass }
  if (isSet(request.query, 'dry_run')) return { needsApproval: true }
  throw new Refusal('ERR_APPROVAL_REQUIRED', fault, { details: { change_set: toId('chs', row.id) } })
}

/** Locks the approver's row, so that a concurrent deactivation waits. */
async function faultOf(tx: Db, { caller }: Pick<Request, 'caller'>, row: ChangeSetRow): Promise<string | undefined> {
  if (row.approved_by === null) return 'These changes need the approval of another admin.'
  if (row.approved_sha256 !== contentSha256(row))
    return 'The change set is not as it was approved. It needs another approval.'
  if (!(await holdsActiveAdmin(tx, caller, row.approved_by as Id<'usr'>)))
    return `${row.approved_by}, who approved these changes, is not an active admin any more. Another admin has to approve them.`
  return undefined
}

export function refuseClosed(row: ChangeSetRow): void {
  if (isOpen(row)) return
  const reason = row.state === 'withdrawn' ? 'This change set has been withdrawn.' : 'This change set has been applied.'
  throw new Refusal('ERR_CHANGE_SET_APPLIED', `${reason} Create another one.`)
}
