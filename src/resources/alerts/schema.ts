import { Type } from 'typebox'
import {
  Annotations,
  AnnotationsShown,
  BeforeId,
  Closed,
  Filter,
  Id,
  Moment,
  PageParameters,
  PathId,
  type Static,
  Text,
  Timestamp,
  TimestampOrNull,
  Uri,
  Volatile,
} from '../../http/wire.ts'
import type { Id as IdText } from '../../kernel/ids.ts'

/** Conditions of rules, and the id prefixes of the one resource that a rule may name. */
export const conditions = {
  backend_down: ['bkdst', 'bkdwd', 'bkdfo', 'bkdhr'],
  node_behind: [],
  certificate_failing: ['cert'],
  errors: ['edgtcp', 'edghts', 'edghtsrt'],
  newly_refused: [],
  webhook_failing: ['whd'],
  rollout_halted: [],
} as const
export type Condition = keyof typeof conditions
export const conditionNames = Object.keys(conditions) as Condition[]
export type WatchedId = IdText<(typeof conditions)[Condition][number]>

const Kind = Type.Unsafe<Condition>({
  type: 'string',
  enum: conditionNames,
  examples: ['backend_down'],
  description:
    'What it watches. backend_down: a backend that is in use is down. node_behind: an edge node has stopped reporting, cannot write to its disk, or lacks changes of the account. certificate_failing: a certificate that is in use has expired, will expire soon, or cannot be renewed. errors: too many requests fail. newly_refused: addresses that were let in lately are refused. webhook_failing: events cannot be delivered to a webhook destination. rollout_halted: a rollout of changes was halted.',
})
const resourceDescription =
  'The one thing that it watches: a backend, a certificate, a webhook destination, or with kind errors an edge or a route. Null: all of them, or with kind errors all traffic of the account.'
const Watched = Id(...Object.values(conditions).flat())

const fields = {
  resource_id: Type.Optional(
    Type.Unsafe<WatchedId | null>({
      anyOf: [Watched, { type: 'null' }],
      description: resourceDescription,
    }),
  ),
  for_seconds: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: 24 * 60 * 60,
      'x-default': 60,
      examples: [300],
      description: 'How long the condition has to hold before an alert fires.',
    }),
  ),
  percent: Type.Optional(
    Type.Unsafe<number | null>({
      type: ['number', 'null'],
      minimum: 0.1,
      maximum: 100,
      description:
        'With kind errors: fire when more than this share of the requests failed at the edge or at the backend. Requests that clients gave up do not count. Null stands for 5.',
    }),
  ),
  window_minutes: Type.Optional(
    Type.Unsafe<number | null>({
      type: ['integer', 'null'],
      minimum: 1,
      maximum: 60,
      description:
        'With kind errors: of the requests of how many minutes. Fewer than 20 decide nothing. Null stands for 5.',
    }),
  ),
  enabled: Type.Optional(Type.Boolean({ description: 'Whether it is evaluated.', 'x-default': true })),
  silenced_until: Moment(
    'Until then, alerts of this rule fire and are listed, but nothing is sent. What still fires then is sent. Null: it is not silenced.',
  ),
}

export const AlertRuleCreate = Closed({ ...Annotations, kind: Kind, ...fields })
export type AlertRuleCreate = Static<typeof AlertRuleCreate>
export const AlertRuleUpdate = Closed({ id: PathId('alr'), ...Annotations, ...fields })
export type AlertRuleUpdate = Static<typeof AlertRuleUpdate>

const ruleStates = ['firing', 'unknown', 'fine', 'disabled'] as const
export const AlertRule = Closed(
  {
    id: Id('alr'),
    uri: Uri,
    created_at: Timestamp,
    ...AnnotationsShown,
    kind: Kind,
    resource_id: Type.Unsafe<string | null>({ type: ['string', 'null'], description: resourceDescription }),
    for_seconds: Type.Integer(),
    percent: Type.Unsafe<number | null>({ type: ['number', 'null'] }),
    window_minutes: Type.Unsafe<number | null>({ type: ['integer', 'null'] }),
    enabled: Type.Boolean(),
    silenced_until: TimestampOrNull('Until when nothing is sent. Null, or a time that is over: it is not silenced.'),
    state: Volatile(
      Type.Unsafe<(typeof ruleStates)[number]>({
        type: 'string',
        enum: [...ruleStates],
        description:
          'firing: at least one alert fires. unknown: of something that it watches it is not known whether the condition holds, or the rule has not been evaluated for two minutes. fine: it is known that the condition does not hold.',
      }),
    ),
    evaluated_at: Volatile(TimestampOrNull('When it was last evaluated. Null: it has not been yet.')),
  },
  { title: 'AlertRule' },
)
export type AlertRule = Static<typeof AlertRule>
export const AlertRuleQuery = Closed({ ...PageParameters, before_id: BeforeId('alr') })

const states = ['pending', 'firing', 'resolved'] as const
export type AlertState = (typeof states)[number]
const State = Type.Unsafe<AlertState>({
  type: 'string',
  enum: [...states],
  description: 'pending: the condition holds, but not yet for as long as the rule says. resolved: it is over.',
})

export const Alert = Closed(
  {
    id: Id('alt'),
    uri: Uri,
    rule_id: Id('alr'),
    kind: Kind,
    resource_id: Type.Unsafe<string | null>({
      type: ['string', 'null'],
      description:
        'What it is about: the id of a resource, the name of a node or a cell, or null for the whole account.',
    }),
    state: State,
    reason: Text(1000, 'Why it fires, or fired, in a sentence.'),
    since: Timestamp,
    fired_at: TimestampOrNull('When it began to fire. Null: it does not yet.'),
    unclear_since: TimestampOrNull(
      'Since when it is not known whether the condition still holds. Meanwhile the alert goes on firing. Null: it is known.',
    ),
    resolved_at: TimestampOrNull('When it was over. Null: it is not.'),
    notified_at: TimestampOrNull(
      'When its event was handed to the webhook destinations. Null: it has not been, because the rule is silenced or too many alerts of the account fired within an hour.',
    ),
  },
  { title: 'Alert' },
)
export type Alert = Static<typeof Alert>
export const AlertQuery = Closed({
  ...PageParameters,
  before_id: BeforeId('alt'),
  state: Filter(State, 'Return only alerts in this state.'),
  rule_id: Filter(Id('alr'), 'Return only alerts of this rule.'),
})
export type AlertQuery = Static<typeof AlertQuery>
