import { isDeepStrictEqual } from 'node:util'
import { breaking, everyTest, judgedAlone } from '../../access/tests/judge.ts'
import type { Db } from '../../db/pool.ts'
import { rehearse, together } from '../../db/transaction.ts'
import { permit as permitted } from '../../http/checks.ts'
import { etagOf } from '../../http/preconditions.ts'
import { type Handling, isSet, type PlannedChange, type Route, route } from '../../http/route.ts'
import { BreakGlass, Closed, EdgeChangeQuery } from '../../http/wire.ts'
import { Refusal } from '../../kernel/errors.ts'
import { isId, toId } from '../../kernel/ids.ts'
import { newAnnotations, patchedAnnotations } from '../../operations/annotations.ts'
import { noteBreakGlass } from '../../operations/approval.ts'
import { actionRoute, createRoute, deleteRoute, updateRoute } from '../../operations/change_routes.ts'
import { IgnoreTestsQuery, judgingOf } from '../../operations/decision_change.ts'
import { rehearseForImpact } from '../../operations/impact.ts'
import { getRoute, listRoute } from '../../operations/read_routes.ts'
import { existing, type Resource } from '../../operations/resource.ts'
import { toFailed } from '../../operations/shown_tests.ts'
import { ConfirmQuery, confirmUnusual } from '../../operations/unusual_changes.ts'
import { holdersOfKeyOf } from '../api_keys/store.ts'
import { areForApproval, checkApproval, refuseClosed } from './approve.ts'
import { changedIn, conflictsOf, makeChanges } from './make.ts'
import {
  ChangeSet,
  ChangeSetApply,
  ChangeSetCreate,
  ChangeSetPreview,
  ChangeSetQuery,
  ChangeSetSummary,
  ChangeSetUpdate,
} from './schema.ts'
import {
  type ChangeSetRow,
  claimReverts,
  deleteChangeSet,
  findChangeSet,
  findWaiting,
  insertChangeSet,
  listChangeSets,
  markApplied,
  markConfirmed,
  markReverted,
  updateChangeSet,
} from './store.ts'
import { refuseUnlessRevertible } from './unconfirmed.ts'
import { stableChangeSetFields, toChangeSet, toSummary } from './view.ts'

export const changeSets: Resource<{ id: 'chs' }, ChangeSetRow, typeof ChangeSet> = {
  name: 'change_sets',
  quota: 'change_sets',
  path: '/change_sets',
  params: { id: 'chs' },
  shape: ChangeSet,
  view: toChangeSet,
  find: findChangeSet,
  stableFields: stableChangeSetFields,
}

const summaries: Resource<{ id: 'chs' }, ChangeSetRow, typeof ChangeSetSummary> = {
  ...{ name: changeSets.name, path: changeSets.path, params: changeSets.params },
  shape: ChangeSetSummary,
  view: toSummary,
  find: findChangeSet,
}

/** Runs the handler and everything that it calls in one transaction. */
export const whole = (made: Route): Route => ({
  ...made,
  // May contain rule sets, and holds the locks of all its changes.
  heavy: 'rule_set',
  alone: true,
  handle: (request) => together(request.db, (db) => made.handle({ ...request, db }), 'late'),
})

type Request = Pick<
  Handling<unknown, object, unknown>,
  'db' | 'origin' | 'makeChange' | 'settings' | 'caller' | 'routes'
>

/** Prepares changes for storage. Tries them first, so that a draft that cannot be applied is refused immediately. */
async function planned(request: Request, changes: readonly PlannedChange[]) {
  if (Buffer.byteLength(JSON.stringify(changes)) > maxChangesBytes)
    throw new Refusal(
      'ERR_BODY_TOO_LARGE',
      'The changes are too large to wait for approval: as JSON they have more than 16 MiB. Split the change.',
    )
  const { base } = await rehearse(request.db, (db) => makeChanges(db, request, changes, { isProposal: true }))
  const admins_only = changes.some(({ operation }) => request.settings.adminOperations.has(operation))
  return { changes, base, admins_only, ...(await sentBy(request, changes)), reverts_id: null, reverts: [] }
}

/** If changes are only appended, changes by others since the draft remain conflicts. */
async function replanned(request: Request, changes: readonly PlannedChange[], { changes: former, base }: ChangeSetRow) {
  const made = await planned(request, changes)
  const isLonger =
    changes.length > former.length && former.every((each, index) => isDeepStrictEqual(each, changes[index]))
  if (!isLonger) return made
  const now = await rehearse(request.db, (db) => makeChanges(db, request, former, { isProposal: true }))
  return { ...made, base: { ...made.base, ...changedIn(base, now.base) } }
}

/** Whether changes from this caller wait for approval, and who may have authored them. */
export const sentBy = async (
  request: Request,
  changes: readonly PlannedChange[],
  { authors }: Pick<ChangeSetRow, 'authors'> = { authors: [] },
) => ({
  state: areForApproval(
    request,
    changes.map(({ operation }) => operation),
  )
    ? ('waiting' as const)
    : ('draft' as const),
  authors: [...new Set([...authors, ...(await holdersOfKeyOf(request.db, request.caller))])],
})

const permit = (_tx: unknown, _caller: unknown, row: ChangeSetRow) => refuseClosed(row)

const conflict = (resources: readonly string[]): Refusal =>
  new Refusal(
    'ERR_CHANGE_SET_CONFLICT',
    `Changed since the draft was made: ${resources.slice(0, 10).join(', ')}${resources.length > 10 ? ` and ${resources.length - 10} more` : ''}. Nothing was changed. Look at the preview, then send the changes again.`,
    { details: { resources: resources.join(', ') } },
  )

/** Prevents undoing anything twice: a unique key decides between concurrent applies. */
async function claim(tx: Db, { caller }: Pick<Request, 'caller'>, row: ChangeSetRow): Promise<void> {
  const isUndone = row.reverts.length > 0 && (await claimReverts(tx, caller, row)).length > 0
  const set = row.reverts_id !== null && isId('chs', row.reverts_id) ? row.reverts_id : undefined
  if (isUndone || (set && !(await markReverted(tx, caller, set))))
    throw new Refusal('ERR_NOT_REVERSIBLE', `Another change set has undone ${row.reverts_id}. Delete this draft.`)
}

const bodyLimitBytes = 1024 * 1024
/** Changes that become a change set because they need approval may be larger; the database accepts twice as much. */
const maxChangesBytes = 16 * 1024 * 1024

const notConfirmable: Partial<Record<ChangeSetRow['state'], string>> = {
  draft: 'This change set has not been applied.',
  waiting: 'This change set has not been applied.',
  approved: 'This change set has not been applied.',
  withdrawn: 'This change set has been withdrawn.',
  applied: 'The time to confirm this change set is over. It is being undone.',
  reverted: 'This change set has been undone. To have its changes back, revert the change set that did.',
}

/** Requires the right to apply it, because confirming makes the changes permanent. */
const confirm = actionRoute(changeSets, {
  verb: 'confirm',
  summary: 'Confirm a change set that was applied with confirm_within_seconds, so that it stays',
  access: 'anyone',
  adminsOnly: 'confirm changes that only admins can make',
  body: Closed({}),
  errors: ['ERR_NOT_CONFIRMABLE'],
  async apply(tx, { caller, routes }, before) {
    for (const operation of new Set(before.operations)) {
      const planned = routes.get(operation)
      if (planned) permitted(planned, caller)
    }
    if (before.state === 'confirmed') return before
    const confirmed = await markConfirmed(tx, caller, before.id)
    if (confirmed) return confirmed
    const reason = before.confirm_by === null && before.state === 'applied' ? wasToStay : notConfirmable[before.state]
    throw new Refusal('ERR_NOT_CONFIRMABLE', reason ?? wasToStay)
  },
  audited: () => ({}),
})
const wasToStay = 'This change set was applied to stay, and needs no confirmation.'

const apply = actionRoute(changeSets, {
  verb: 'apply',
  summary: 'Apply a change set: make all of its changes in one transaction, or none',
  access: 'anyone',
  adminsOnly: 'apply changes that only admins can make',
  body: ChangeSetApply,
  errors: [
    'ERR_CHANGE_REFUSED',
    'ERR_CHANGE_SET_CONFLICT',
    'ERR_CHANGE_SET_APPLIED',
    'ERR_APPROVAL_REQUIRED',
    'ERR_NOT_REVERSIBLE',
    'ERR_UNUSUAL_CHANGE',
    'ERR_ACCESS_TEST_FAILED',
  ],
  permit,
  async apply(tx, request, before) {
    const { bypass } = await checkApproval(tx, request, before)
    const make = () => makeChanges(request.db, request, before.changes, { isProposal: false })
    // A dry run evaluates access tests itself.
    const made = isSet(request.query, 'dry_run')
      ? await make()
      : await judgedAlone(tx, judgingOf(request, everyTest), make)
    const conflicts = conflictsOf(before.base, made.base)
    if (conflicts.length) throw conflict(conflicts)
    const judged = confirmUnusual(request, made.unusual)
    await claim(tx, request, before)
    const { confirm_within_seconds } = request.body
    if (confirm_within_seconds !== undefined) await refuseUnlessRevertible(request, made)
    if (bypass !== undefined) {
      const { operation } = request.origin
      await noteBreakGlass(tx, request.origin, { operation, resource: toId('chs', before.id), reason: bypass })
    }
    const applied = await markApplied(tx, request.caller, before.id, made, confirm_within_seconds)
    return { ...applied, ...judged, ...(bypass !== undefined && { brokeGlass: true as const }) }
  },
  audited: (_, { confirmed, brokeGlass }) => ({
    ...(confirmed && { confirmed }),
    ...(brokeGlass && { break_glass: true }),
  }),
})

/** Approval details for dry runs and metrics. */
async function approvalOf(request: Parameters<typeof apply.handle>[0]) {
  if (!isSet(request.query as object, 'dry_run') && request.breakGlass === undefined) return {}
  const row = await existing(changeSets, request.db, request, false)
  const { bypass, needsApproval } = await checkApproval(request.db, request as Handling<unknown, object, unknown>, row)
  return { needsApproval, ...(bypass !== undefined && { brokeGlass: true as const }) }
}

const create = createRoute(changeSets, {
  summary: 'Create a change set. Its changes are tried and undone, and nothing is changed until it is applied',
  access: 'anyone',
  body: ChangeSetCreate,
  bodyLimitBytes,
  errors: ['ERR_CHANGE_REFUSED'],
  insert: async (tx, request) =>
    insertChangeSet(tx, request.caller, {
      ...newAnnotations(request.body),
      ...(await planned(request, request.body.changes)),
    }),
})

export const changeSetRoutes = [
  whole({
    ...create,
    async handle(request) {
      const { db, caller, body, uri, isRepeatable } = request
      const { changes } = body as ChangeSetCreate
      const same = isRepeatable && (await findWaiting(db, caller, changes))
      if (!same) return create.handle(request)
      const shown = toChangeSet(same, uri)
      return { body: shown, etag: etagOf(stableChangeSetFields(shown)), replayed: true }
    },
  }),
  getRoute(changeSets, { access: 'anyone' }),
  listRoute(summaries, {
    summary: 'List change sets, newest first, without their changes',
    access: 'anyone',
    field: 'change_sets',
    query: ChangeSetQuery,
    select: listChangeSets,
  }),
  whole(
    updateRoute(changeSets, {
      access: 'anyone',
      body: ChangeSetUpdate,
      bodyLimitBytes,
      errors: ['ERR_CHANGE_REFUSED', 'ERR_CHANGE_SET_APPLIED'],
      permit,
      apply: async (tx, request, before) =>
        updateChangeSet(tx, request.caller, before.id, {
          ...before,
          ...(request.body.changes && (await replanned(request, request.body.changes, before))),
          ...patchedAnnotations(before, request.body),
          ...(await sentBy(request, request.body.changes ?? before.changes, before)),
        }),
    }),
  ),
  route({
    operation: 'change_sets.preview',
    summary: 'Preview a change set: what its changes would do now, and what has changed since the draft was made',
    method: 'POST',
    path: '/change_sets/:id/preview',
    params: { id: 'chs' },
    body: Closed({}),
    success: 200,
    response: ChangeSetPreview,
    access: 'anyone',
    onlyAsks: true,
    heavy: 'rule_set',
    errors: ['ERR_CHANGE_REFUSED', 'ERR_CHANGE_SET_APPLIED'],
    async handle(request) {
      const row = await existing(changeSets, request.db, request, false)
      refuseClosed(row)
      const now = request.clock()
      const { caller, edges, uri } = request
      const { differences, base, unusual, broken, impact } = await rehearseForImpact(
        request.db,
        { caller, now, edges, uri },
        async (db) => {
          const { result, broken } = await breaking(db, { accountId: caller.accountId, now, touched: everyTest }, () =>
            makeChanges(db, request, row.changes, { isProposal: true }),
          )
          return { ...result, broken }
        },
      )
      return {
        body: {
          differences,
          impact,
          conflicts: conflictsOf(row.base, base),
          failed_access_tests: broken.map(toFailed),
          needs_confirmation: unusual,
          needs_approval: (await checkApproval(request.db, { ...request, query: { dry_run: true } }, row))
            .needsApproval,
        },
      }
    },
  }),
  {
    ...whole({
      ...apply,
      async handle(request) {
        const approval = await approvalOf(request)
        const { generation: _, ...result } = await apply.handle(request)
        const { generation } = result.body as ChangeSet
        return { ...result, ...approval, ...(generation !== null && { generation }) }
      },
    }),
    query: Closed({
      ...apply.query.properties,
      ...ConfirmQuery.properties,
      ...IgnoreTestsQuery.properties,
      break_glass: BreakGlass,
      ...EdgeChangeQuery,
    }),
  },
  { ...confirm, alone: true as const },
  deleteRoute(changeSets, {
    summary: 'Delete a draft',
    access: 'anyone',
    errors: ['ERR_CHANGE_SET_APPLIED'],
    permit,
    remove: (tx, { caller }, before) => deleteChangeSet(tx, caller, before.id),
  }),
]
