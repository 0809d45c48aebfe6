import { isDeepStrictEqual } from 'node:util'
import { rulesRemovedBy } from '../../access/evidence/rule_set_changes.ts'
import type { DbPool } from '../../db/pool.ts'
import { rehearse } from '../../db/transaction.ts'
import { permit } from '../../http/checks.ts'
import type { Difference } from '../../http/dry_run.ts'
import type { ServiceRequest } from '../../http/route.ts'
import { forbidden, Refusal } from '../../kernel/errors.ts'
import { type Id, isId, toId, toUuid } from '../../kernel/ids.ts'
import { type AuditedEvent, eventsAbout } from '../audit_events/store.ts'
import { findTarget } from '../edges/store.ts'
import { type Made, makeChanges } from './make.ts'
import { maxChanges } from './schema.ts'
import { revertersOf } from './store.ts'
import { edgesIn, notReversible, type Step, type Steps, stepsOf, undoOfEvent } from './undo_steps.ts'

type Request = Pick<ServiceRequest, 'db' | 'origin' | 'caller' | 'makeChange' | 'settings' | 'routes'>
/** An obstacle: a resource that differs from the event's result, with the fields if it still exists. */
type Conflict = { readonly resource: string; readonly fields: readonly string[]; readonly fault: string }

/** Creates the draft that undoes these events, given in chronological order. It is tried before it is stored. */
export async function draftOfRevert(request: Request, events: readonly AuditedEvent[]) {
  permitRevert(request, events)
  await refuseReverted(request, events)
  const plan = stepsOf(request.routes, events.toReversed(), await edgesOf(request, events))
  const changes = plan.steps.map(({ change }) => change)
  await refuseLost(request, plan, events)
  const { base, conflicts } = await tried(request, plan).catch((error) => {
    if (error instanceof Refusal && error.code === 'ERR_CHANGE_REFUSED')
      return { base: {}, conflicts: [refused(plan, error)] }
    throw error
  })
  if (conflicts.length) throw await conflictOf(request, events, conflicts)
  const admins_only = isForAdmins(request, [...events, ...changes])
  return { changes, base, admins_only, reverts: events.map(({ id }) => id) }
}

/** Requires the right to propose changes and, for operations reserved for admins, an admin. */
function permitRevert(request: Request, events: readonly AuditedEvent[]): void {
  const { routes, caller } = request
  const create = routes.get('change_sets.create')
  if (create) permit(create, caller)
  if (caller.role !== 'admin' && isForAdmins(request, events))
    throw forbidden('Only admins can undo what only admins can do.')
}

const isForAdmins = ({ settings }: Request, changes: readonly { operation: string }[]): boolean =>
  changes.some(({ operation }) => settings.adminOperations.has(operation))

async function refuseReverted({ db, caller }: Request, events: readonly AuditedEvent[]): Promise<void> {
  const [first] = await revertersOf(
    db,
    caller,
    events.map(({ id }) => id),
  )
  const event = events.find(({ id }) => id === first?.event_id)
  if (!first || !event) return
  const by = toId('chs', first.change_set_id)
  throw notReversible(event, `${by} has undone it. To have it back, revert that change set.`)
}

/** The edge of each route: events about its modules do not name it. */
async function edgesOf({ db, caller }: Request, events: readonly AuditedEvent[]): Promise<ReadonlyMap<string, string>> {
  const edges = edgesIn(events)
  for (const { resource_id: id } of events) {
    if (!isId('edghtsrt', id) || edges.has(id)) continue
    const found = await findTarget(db, caller, id)
    if (found?.parent_id) edges.set(id, toId('edghts', found.parent_id))
  }
  return edges
}

/** Refuses to undo what the audit log does not contain. */
async function refuseLost({ db, caller, routes }: Request, { steps }: Steps, events: readonly AuditedEvent[]) {
  const [first] = events
  if (first && steps.length > maxChanges)
    throw notReversible(first, `It takes ${steps.length} changes, and a change set has at most ${maxChanges}.`)
  for (const event of events) {
    if (undoOfEvent(routes, event).kind !== 'deleted' || !isId('ipp', event.resource_id)) continue
    const change = { accountId: caller.accountId, operationId: event.operation_id as Id<'op'> }
    const rules = await rulesRemovedBy(db, change, toUuid(event.resource_id))
    if (rules === 0) continue
    throw notReversible(
      event,
      `${rules === undefined ? 'Whether the policy had rules is not known any more' : 'Rules were deleted with the policy'}, and the audit has only those that were deleted one by one. Create the policy again, and send its rules.`,
    )
  }
}

/** Makes the changes, compares the states before and after each with the events, and rolls back. */
const tried = (request: Request, plan: Steps): Promise<Pick<Made, 'base'> & { conflicts: Conflict[] }> =>
  rehearse(request.db, async (db) => {
    const changes = plan.steps.map(({ change }) => change)
    const made = await makeChanges(db, request, changes, { isProposal: true })
    return { base: made.base, conflicts: [...conflictsIn(plan, made), ...(await rulesInTheWay(db, request, plan))] }
  })

function conflictsIn({ steps, createdAgain }: Steps, { resources, differences }: Made): Conflict[] {
  const newIds = [...createdAgain].map(([old, position]) => [old, resources[position] ?? old] as const)
  const own = new Set(resources)
  const done = differences.filter(({ resource }) => own.has(resource))
  let position = 0
  const conflicts = steps.flatMap((step, index): Conflict[] => {
    const difference = done[position]
    if (!difference || difference.resource !== resources[index])
      return [{ resource: step.resource, fields: step.found, fault: 'is already as it was' }]
    position++
    return faultsOf(step, difference, newIds)
  })
  const others = differences.filter(({ resource }) => !own.has(resource))
  return [...conflicts, ...others.map(({ resource }) => ({ resource, fields: [], fault: 'would go with it' }))]
}

function faultsOf(step: Step, difference: Difference, newIds: readonly (readonly [string, string])[]): Conflict[] {
  const { event, resource, found, left } = step
  const renamed = (fields: object): Readonly<Record<string, unknown>> =>
    JSON.parse(newIds.reduce((text, [old, id]) => text.replaceAll(old, id), JSON.stringify(fields)))
  const differing = (fields: readonly string[], one: object, other: object) =>
    fields.filter(
      (field) => !isDeepStrictEqual(withoutUris(Reflect.get(one, field)), withoutUris(Reflect.get(other, field))),
    )
  const changed = differing(found, difference.before ?? {}, renamed(step.after))
  if (changed.length) return [{ resource, fields: changed, fault: `has another ${changed.join(', ')}` }]
  const inexact = differing(left, difference.after ?? {}, renamed(step.before))
  if (inexact.length) throw notReversible(event, `${inexact.join(', ')} would not be as before.`)
  return []
}

/** URIs begin with the public URL, which the operator may have changed since. */
const withoutUris = (value: unknown): unknown =>
  JSON.parse(JSON.stringify(value ?? null), (_, part) =>
    typeof part?.id === 'string' && /^[a-z]+_[0-9a-z]{26}$/.test(part.id) ? { ...part, uri: undefined } : part,
  )

/** The audit event of a policy's deletion does not contain its rules. */
async function rulesInTheWay(db: DbPool, { origin }: Request, { steps }: Steps): Promise<Conflict[]> {
  const conflicts: Conflict[] = []
  for (const { change, resource } of steps)
    if (change.operation === 'ip_policies.delete' && (await rulesRemovedBy(db, origin, toUuid(resource as Id<'ipp'>))))
      conflicts.push({ resource, fields: ['rules'], fault: 'has rules that are not from it' })
  return conflicts
}

/** A change is no longer possible: its resource is deleted, in use or taken. */
function refused({ steps }: Steps, { message, details }: Refusal): Conflict {
  const step = steps[Number(details?.change)]
  return { resource: step?.resource ?? '', fields: [], fault: `cannot be put back: ${message.replace(/\.$/, '')}` }
}

async function conflictOf(
  { db, caller }: Request,
  events: readonly AuditedEvent[],
  conflicts: readonly Conflict[],
): Promise<Refusal> {
  const own = new Set(events.map(({ id }) => id))
  const last = Math.max(...events.map(({ position }) => position))
  const found: { conflict: Conflict; event: AuditedEvent | undefined }[] = []
  for (const conflict of conflicts.slice(0, 10)) {
    const later = await eventsAbout(db, caller, conflict.resource, last)
    const event = later.find(({ id, ...each }) => !own.has(id) && concerns(each, conflict.fields))
    found.push({ conflict, event })
  }
  const told = found.map(({ conflict: { resource, fault }, event }) => {
    const since = event && ` (changed by ${toId('ev', event.id)}, ${event.operation})`
    return `${resource} ${fault}${since ?? ''}`
  })
  const more = conflicts.length > found.length ? ` And ${conflicts.length - found.length} more.` : ''
  const fields = [...new Set(conflicts.flatMap((each) => each.fields))]
  const later = [...new Set(found.flatMap(({ event }) => (event ? [toId('ev', event.id)] : [])))]
  return new Refusal(
    'ERR_REVERT_CONFLICT',
    `Nothing was changed, because of later changes: ${told.join('; ')}.${more}`,
    {
      details: {
        resources: [...new Set(conflicts.map(({ resource }) => resource))].join(', '),
        ...(fields.length > 0 && { fields: fields.join(', ') }),
        ...(later.length > 0 && { events: later.join(', ') }),
      },
    },
  )
}

const concerns = ({ before, after }: Pick<AuditedEvent, 'before' | 'after'>, fields: readonly string[]): boolean =>
  fields.length === 0 || !before || !after || fields.some((field) => !isDeepStrictEqual(before[field], after[field]))
