import { Type } from 'typebox'
import {
  BeforeId,
  Closed,
  Filter,
  Id,
  ListOf,
  PageParameters,
  type Static,
  Text,
  Timestamp,
  TimestampOrNull,
  Uri,
} from '../../http/wire.ts'

export const rolloutStates = ['watching', 'waiting', 'releasing', 'released', 'halted'] as const
export type RolloutState = (typeof rolloutStates)[number]
const State = Type.Unsafe<RolloutState>({
  type: 'string',
  enum: [...rolloutStates],
  description:
    'watching: a wave of nodes has the changes, and later ones do not. waiting: it comes after an earlier rollout of the account. releasing: it goes to all waves without a watch. released: every wave has it. halted: no node has it, and what the account changes waits in it.',
})

const TextOrNull = (description: string) => Type.Unsafe<string | null>({ type: ['string', 'null'], description })
const WaveOrNull = (description: string) => Type.Unsafe<number | null>({ type: ['integer', 'null'], description })

export const RolloutEvidence = Closed(
  {
    signal: Type.String({ description: 'What was looked at, such as record. More may be added.' }),
    sentence: Type.String({ description: 'What was seen.' }),
    node: TextOrNull('The edge node that it was seen on. Null: it is not about one.'),
    record: TextOrNull('The record that it is about. Null: it is not about one.'),
    target: TextOrNull(
      'The edge or route that it is about, or the account for all of its HTTPS edges. Null: it is not about one.',
    ),
    addresses: Type.Array(Type.String(), {
      description: 'Some of the addresses that it is about. Only `GET /rollouts/{id}` shows them, and only to admins.',
    }),
  },
  { title: 'RolloutEvidence' },
)
export type RolloutEvidence = Static<typeof RolloutEvidence>

const RolloutChange = Closed(
  {
    audit_event_id: Id('ev'),
    created_at: Timestamp,
    operation: Type.String({ description: 'The operation that made the change, such as ip_policy_rules.create.' }),
    resource_id: Type.String({ description: 'The resource that was changed.' }),
    owner_id: TextOrNull('The user or bot that made the change. Null for a command on the server.'),
  },
  { title: 'RolloutChange' },
)

const fields = {
  id: Id('ro'),
  uri: Uri,
  created_at: Timestamp,
  cell: Type.String({ description: 'The cell whose nodes get the changes. A change in two cells has two rollouts.' }),
  state: State,
  wave: WaveOrNull('The last wave that has the changes; the first is 0. Null: no node has them.'),
  waves: Type.Integer({ description: 'Number of waves of the cell.' }),
  generation: Type.Integer({ description: 'The last generation that is part of it.' }),
  reason: TextOrNull('Why it was halted, resumed or released. Null: nothing of that has happened.'),
  evidence: Type.Array(RolloutEvidence, { description: 'What it was halted for, at most 100 entries.' }),
  applied_at: TimestampOrNull('When every node of `wave` had applied the changes. Null: not yet.'),
  watched_until: TimestampOrNull('When the watch of `wave` ends, if nothing stops it. Null: it is not being watched.'),
  ended_at: TimestampOrNull('When every wave had it. Null: not yet.'),
  change_count: Type.Integer({ description: 'Number of changes that it contains.' }),
  latest_change: Type.Unsafe<Static<typeof RolloutChange> | null>({
    description: 'The latest of them. Null: the service made it, or its audit event has been deleted.',
    anyOf: [RolloutChange, { type: 'null' }],
  }),
}
export const Rollout = Closed(fields, { title: 'Rollout' })
export type Rollout = Static<typeof Rollout>

const RolloutNode = Closed(
  {
    name: Type.String(),
    wave: Type.Integer({ description: 'The wave of the node.' }),
    live: Type.Boolean({ description: 'Whether the node has reported recently.' }),
    has_changes: Type.Boolean({ description: 'Whether the node is to have the changes, and has applied them.' }),
    has_previous: Type.Boolean({
      description:
        'Whether the node has what was there before the changes: it is in a later wave, or has said that it has it again since they were halted. When this and `has_changes` are false, it is not known yet what the node has.',
    }),
    reason: TextOrNull('Why the node has refused a record of the changes. Null: it has not.'),
  },
  { title: 'RolloutNode' },
)
export const RolloutDetails = Closed(
  {
    ...fields,
    records: Type.Array(Type.String(), {
      description: 'The records of edge nodes that it changes, at most 100. Empty once it is released.',
    }),
    nodes: Type.Array(RolloutNode, { description: 'The nodes of the cell, those that get the changes first first.' }),
    changes: Type.Array(RolloutChange, {
      description:
        'What it contains, newest first, at most 100. Those whose audit events have been deleted are missing.',
    }),
  },
  { title: 'RolloutDetails' },
)
export type RolloutDetails = Static<typeof RolloutDetails>

export const RolloutQuery = Closed({
  ...PageParameters,
  before_id: BeforeId('ro'),
  state: Filter(State, 'Return only rollouts in this state.'),
  cell: Type.Optional(Text(63, 'Return only rollouts in the cell of this name.', 'eu')),
})
export type RolloutQuery = Static<typeof RolloutQuery>
export const RolloutList = ListOf('rollouts', Rollout)

export const RolloutDecision = Closed({
  reason: Type.String({
    minLength: 1,
    'x-maxBytes': 255,
    examples: ['logins fail on the first node'],
    description: 'Why, for those who read it later. At most 255 bytes.',
  }),
})
