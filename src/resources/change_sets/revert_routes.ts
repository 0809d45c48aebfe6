import type { Handling, PlannedChange, Route } from '../../http/route.ts'
import { Closed } from '../../http/wire.ts'
import { notFound, Refusal } from '../../kernel/errors.ts'
import { type Id, toUuid } from '../../kernel/ids.ts'
import { createRoute } from '../../operations/change_routes.ts'
import { type AuditedEvent, findAuditEvents } from '../audit_events/store.ts'
import { eventsOf, findRollout } from '../rollouts/store.ts'
import { draftOfRevert } from './revert.ts'
import { changeSets, sentBy, whole } from './routes.ts'
import { maxChanges } from './schema.ts'
import { type ChangeSetRow, findChangeSet, insertChangeSet, isOpen } from './store.ts'
import { titleOfUndoOf } from './undo_title.ts'

type Request<Target> = Handling<{ readonly id: Target }, object, unknown>

const forApproval = async <Draft extends { changes: readonly PlannedChange[] }>(
  request: Parameters<typeof sentBy>[0],
  draft: Draft,
) => ({ ...draft, ...(await sentBy(request, draft.changes)) })

/** POST route that drafts the undo of the resource in its path. */
const revertRoute = <Kind extends 'ev' | 'chs' | 'ro'>(
  kind: Kind,
  {
    name,
    summary,
    eventsOf,
  }: {
    readonly name: 'audit_events' | 'change_sets' | 'rollouts'
    readonly summary: string
    /** Events in chronological order. `description`: that of the change set that made them. */
    readonly eventsOf: (request: Request<Id<Kind>>) => Promise<{ events: AuditedEvent[]; description?: string | null }>
  },
): Route =>
  whole({
    ...createRoute(changeSets, {
      summary,
      access: 'anyone',
      adminsOnly: 'undo changes that only admins can make',
      body: Closed({}),
      errors: ['ERR_NOT_REVERSIBLE', 'ERR_REVERT_CONFLICT'],
      async insert(tx, request) {
        const target = request as unknown as Request<Id<Kind>>
        const { id } = target.params
        const { events, description = null } = await eventsOf(target)
        return insertChangeSet(tx, request.caller, {
          ...{ description: titleOfUndoOf(description, events), metadata: null, reverts_id: id },
          ...(await forApproval(request, await draftOfRevert(request, events))),
        })
      },
    }),
    operation: `${name}.revert`,
    path: `/${name}/:id/revert`,
    params: { id: kind },
  })

export const revertRoutes = [
  revertRoute('ev', {
    name: 'audit_events',
    summary: 'Create the change set that undoes what an audit event records. Nothing is changed until it is applied',
    async eventsOf({ db, caller, params }) {
      const events = await findAuditEvents(db, caller, [toUuid(params.id)])
      if (events.length === 0) throw notFound('ev')
      return { events }
    },
  }),
  revertRoute('chs', {
    name: 'change_sets',
    summary: 'Create the change set that undoes all changes of an applied one. Nothing is changed until it is applied',
    async eventsOf({ db, caller, params }) {
      const row = await findChangeSet(db, caller, params.id, false)
      if (!row) throw notFound('chs')
      const ids = row.applied_events ?? []
      const events = canBeUndone(row) ? await findAuditEvents(db, caller, ids) : []
      if (events.length > 0 && events.length === ids.length) return { events, description: row.description }
      throw new Refusal('ERR_NOT_REVERSIBLE', whyNot[row.state])
    },
  }),
  revertRoute('ro', {
    name: 'rollouts',
    summary: 'Create the change set that undoes all changes of a rollout. Nothing is changed until it is applied',
    async eventsOf({ db, caller, params }) {
      const row = await findRollout(db, caller, params.id, false)
      if (!row) throw notFound('ro')
      // Reads one more than a change set can have, so that the limit is reported.
      const events = await eventsOf(db, row, maxChanges + 1)
      if (events.length > 0) return { events: events.reverse() }
      throw new Refusal(
        'ERR_NOT_REVERSIBLE',
        'The audit events of this rollout are past their retention, or it has none.',
      )
    },
  }),
]

const canBeUndone = (row: ChangeSetRow): boolean =>
  !isOpen(row) && row.state !== 'reverted' && row.state !== 'withdrawn'

const changedNothing =
  'This change set changed nothing, or its audit events are past their retention. Make the changes that you want.'
const notApplied = 'This change set has not been applied. Delete it with DELETE /change_sets/{id}.'
const whyNot = {
  draft: notApplied,
  waiting: notApplied,
  approved: notApplied,
  withdrawn: 'This change set has been withdrawn, and has changed nothing.',
  applied: changedNothing,
  confirmed: changedNothing,
  revert_failed: changedNothing,
  reverted: 'This change set has been undone. To have its changes back, revert the change set that did.',
} as const
