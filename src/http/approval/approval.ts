import type { DbPool } from '../../db/pool.ts'
import { together } from '../../db/transaction.ts'
import type { Caller } from '../../identity/caller.ts'
import type { Origin } from '../../identity/origin.ts'
import { needsApproval } from '../../kernel/approval.ts'
import { forbidden, invalidField, Refusal } from '../../kernel/errors.ts'
import type { Id } from '../../kernel/ids.ts'
import { handleOn, type Incoming, nothingRepeated, type Sent, toPlanned } from '../handling.ts'
import { mayNeedApproval, type Result, type Route } from '../route.ts'

export const isForApproval = (route: Route, { approvalRequiredFor }: Caller): boolean =>
  needsApproval(approvalRequiredFor, route.operation) && mayNeedApproval(route)

const maxReasonLength = 255

/** The caller's reason for skipping approval; undefined if the request does not skip it. */
export function reasonOf(
  { raw }: Pick<Incoming, 'raw'>,
  { role }: Caller,
  query: Record<string, unknown>,
): string | undefined {
  if (query.break_glass !== true) return undefined
  if (role !== 'admin')
    throw forbidden('Only admins can make a change without approval. Repeat the request without break_glass.')
  return readReason(raw, 'break_glass')
}

/** A header, because these operations have bodies of their own. */
export function readReason(raw: Incoming['raw'], parameter: string): string {
  const reason = raw.headersDistinct['service-reason']?.join(', ').trim() ?? ''
  if (!/^[\x20-\x7e]+$/.test(reason) || reason.length > maxReasonLength)
    throw invalidField('Service-Reason', `must be 1 to ${maxReasonLength} printable ASCII characters with ${parameter}`)
  return reason
}

/** Turns a change that needs approval into a change set. Refuses everything that the change itself would refuse. */
export async function propose(
  db: DbPool,
  incoming: Incoming,
  caller: Caller,
  sent: Sent,
  body: object | undefined,
): Promise<Result<unknown>> {
  const { route, routes, facts } = incoming
  const create = routes.get('change_sets.create')
  if (!create) throw new Error('there is no operation that creates change sets')
  const change = toPlanned(route, sent, body)
  facts.isProposed = true
  try {
    return await handleOn(db, incoming, create, caller, {
      ...{ params: {}, query: {}, body: { changes: [change] }, repeated: nothingRepeated, isPart: false },
      // A repeated PUT means the same change; a repeated POST would create another resource.
      ...(route.method === 'POST' ? { idempotencyKey: sent.idempotencyKey } : { isRepeatable: true }),
    })
  } catch (error) {
    facts.isProposed = false
    const isOfChange = error instanceof Refusal && error.code === 'ERR_CHANGE_REFUSED'
    throw isOfChange && error.cause instanceof Refusal ? error.cause : error
  }
}

/** Makes the change without approval and audits the reason, in one transaction. */
export const breakGlass = (
  db: DbPool,
  { service }: Pick<Incoming, 'service'>,
  { origin, reason, resource }: { origin: Origin; reason: string; resource: Id },
  change: (db: DbPool) => Promise<Result<unknown>>,
): Promise<Result<unknown>> =>
  together(db, async (on) => {
    const result = await change(on)
    await service.noteBreakGlass(on, origin, { operation: origin.operation, resource, reason })
    return { ...result, brokeGlass: true }
  })
