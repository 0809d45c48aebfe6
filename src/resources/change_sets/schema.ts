import { Type } from 'typebox'
import { Difference, FailedAccessTest, UnusualExtents } from '../../http/dry_run.ts'
import { ChangeImpact } from '../../http/impact.ts'
import {
  Annotations,
  AnnotationsShown,
  BeforeId,
  Closed,
  Filter,
  Id,
  PageParameters,
  PathId,
  type Static,
  Timestamp,
  TimestampOrNull,
  Uri,
} from '../../http/wire.ts'

export const maxChanges = 2_000

const PlannedChange = Closed(
  {
    operation: Type.String({
      'x-maxBytes': 100,
      description:
        'The id of an operation that changes something. Operations whose request or response has a secret cannot be part of a change set.',
    }),
    parameters: Type.Optional(
      Type.Unsafe<Record<string, string | number | boolean>>({
        type: 'object',
        maxProperties: 20,
        additionalProperties: { type: ['string', 'number', 'boolean'], 'x-maxBytes': 2048 },
        description: 'The parameters of its path and query, by name.',
      }),
    ),
    body: Type.Optional(
      Type.Unsafe<object>({
        type: 'object',
        additionalProperties: true,
        description:
          'The body that would be sent to it. `"{{changes[0].id}}"`, here or as a parameter, stands for the id of what the first change creates.',
      }),
    ),
    if_match: Type.Optional(
      Type.String({ 'x-maxBytes': 255, description: 'The ETag that the resource must have when the change is made.' }),
    ),
  },
  { title: 'PlannedChange' },
)

const Changes = Type.Array(PlannedChange, {
  minItems: 1,
  maxItems: maxChanges,
  examples: [
    [
      { operation: 'ip_policies.create', body: { description: 'office' } },
      {
        operation: 'ip_policy_rules.create',
        body: { ip_policy_id: '{{changes[0].id}}', action: 'allow', cidr: '192.0.2.0/24' },
      },
    ],
  ],
  description: 'In the order in which they are made.',
})

export const ChangeSetCreate = Closed({ ...Annotations, changes: Changes })
export type ChangeSetCreate = Static<typeof ChangeSetCreate>
export const ChangeSetUpdate = Closed({ id: PathId('chs'), ...Annotations, changes: Type.Optional(Changes) })

/** Covers a night, and is short enough that its audit events and the resources they name still exist. */
export const maxConfirmSeconds = 24 * 60 * 60

export const ChangeSetApply = Closed({
  confirm_within_seconds: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: maxConfirmSeconds,
      examples: [600],
      description:
        'Undo all of its changes after this time, unless someone confirms it with `POST /change_sets/{id}/confirm`. Omitted: it stays.',
    }),
  ),
})

export const ChangeSetApprove = Closed({
  content_sha256: Type.String({
    'x-maxBytes': 64,
    pattern: '^[0-9a-f]{64}$',
    examples: ['5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03'],
    description: 'The `content_sha256` of what you have looked at, so that nothing else is approved.',
  }),
})
export type ChangeSetApprove = Static<typeof ChangeSetApprove>

const states = [
  'draft',
  'waiting',
  'approved',
  'applied',
  'confirmed',
  'reverted',
  'revert_failed',
  'withdrawn',
] as const
const State = Type.Unsafe<(typeof states)[number]>({
  type: 'string',
  enum: [...states],
  description:
    'draft: nothing has happened. waiting: its changes need the approval of another admin. approved: it has the approval, and can be applied. withdrawn: it will not be applied. applied: its changes were made. confirmed: they were made for a limited time, and stay because someone confirmed them. reverted: they were made, and undone by another. revert_failed: they were not confirmed in time, and they could not be undone.',
})
const TextOrNull = (description: string) => Type.Unsafe<string | null>({ type: ['string', 'null'], description })

const summary = {
  id: Id('chs'),
  uri: Uri,
  ...AnnotationsShown,
  created_at: Timestamp,
  state: State,
  operations: Type.Array(Type.String(), { description: 'The operation of each change.' }),
  author_id: Type.String({ description: 'The user or bot that created it.' }),
  applied_at: TimestampOrNull('When its changes were made. Null: they were not.'),
  applied_by_id: TextOrNull('The user or bot that applied it.'),
  confirm_by: TimestampOrNull('Until when it has to be confirmed, or is undone. Null: it was applied to stay.'),
  confirmed_at: TimestampOrNull('When it was confirmed.'),
  confirmed_by_id: TextOrNull('The user or bot that confirmed it.'),
  revert_failure: TextOrNull(
    'Why it could not be undone when its time was over. Confirm it, or undo it with `POST /change_sets/{id}/revert`.',
  ),
  reverts_id: TextOrNull(
    'The audit event or the change set that it was made to undo. Null: none, or its changes have been edited since.',
  ),
  approved_at: TimestampOrNull('When it was approved. Null: it was not, or it has been changed since.'),
  approved_by_id: TextOrNull('The user who approved it.'),
  withdrawn_at: TimestampOrNull('When it was withdrawn.'),
  withdrawn_by_id: TextOrNull('The user or bot that withdrew it.'),
  generation: Type.Unsafe<number | null>({
    type: ['integer', 'null'],
    description: 'The generation of all of its changes that concern edge nodes. Null: there are none.',
  }),
}
export const ChangeSetSummary = Closed(summary, { title: 'ChangeSetSummary' })
export const ChangeSet = Closed(
  {
    ...summary,
    content_sha256: Type.String({ description: 'Identifies exactly these changes, for their approval.' }),
    changes: Changes,
    applied_resources: Type.Unsafe<(string | null)[] | null>({
      type: ['array', 'null'],
      items: { type: ['string', 'null'] },
      description: 'For each change, the id of what it created, changed or deleted. Null until it is applied.',
    }),
  },
  { title: 'ChangeSet' },
)
export type ChangeSet = Static<typeof ChangeSet>

export const ChangeSetQuery = Closed({
  ...PageParameters,
  before_id: BeforeId('chs'),
  state: Filter(State, 'Return only change sets in this state.'),
  unconfirmed: Filter(
    Type.Boolean(),
    'true: return only change sets that wait to be confirmed, or that were not confirmed in time and could not be undone.',
  ),
})
export type ChangeSetQuery = Static<typeof ChangeSetQuery>

export const ChangeSetPreview = Closed(
  {
    differences: Type.Array(Difference, { description: 'What the audit events of its changes would say.' }),
    impact: ChangeImpact,
    conflicts: Type.Array(Type.String(), {
      description:
        'Ids of resources that were changed since the draft was made. As long as there are any, it cannot be applied.',
    }),
    failed_access_tests: Type.Array(FailedAccessTest, {
      description: 'The access tests that its changes together would break. It would be refused because of them.',
    }),
    needs_confirmation: UnusualExtents,
    needs_approval: Type.Boolean({ description: 'It cannot be applied until another admin approves it.' }),
  },
  { title: 'ChangeSetPreview' },
)
