import { Type } from 'typebox'
import {
  BeforeId,
  Closed,
  EdgeChangeQuery,
  Id,
  PageParameters,
  Ref,
  type Static,
  TimestampOrNull,
  Uri,
} from '../../http/wire.ts'
import { maxNamed } from '../../kernel/ip/coverage.ts'
import { someRulesGuard } from '../../operations/decision_change.ts'
import { ConfirmQuery } from '../../operations/unusual_changes.ts'

export const coverageKinds = ['shadowed', 'redundant', 'subdivided'] as const
const kindsText =
  '`shadowed`: every address in its range is denied by other rules. `redundant`: a wider rule with the same action covers it. `subdivided`: narrower rules cover its whole range.'

const Hits = (description: string) => Type.Integer({ description })

export const RuleEvidence = Closed(
  {
    id: Id('ipr'),
    uri: Uri,
    cidr: Type.String({ description: 'In canonical form, always with a prefix length.' }),
    action: Type.Unsafe<'allow' | 'deny'>({ type: 'string', enum: ['allow', 'deny'] }),
    description: Type.Optional(Type.String({ description: 'Omitted when not set.' })),
    hits: Hits('Number of decisions that this rule made since `counted_since`.'),
    hits_7d: Hits('Those of the last seven days in UTC, today included.'),
    hits_30d: Hits('Those of the last thirty days in UTC, today included.'),
    last_hit_at: TimestampOrNull('When the rule last decided. Null: not since `counted_since`.'),
    counted_since: Type.String({
      format: 'date-time',
      description: 'When counting began: when the rule was created, or when the installation began to count.',
    }),
    covered: Type.Unsafe<(typeof coverageKinds)[number] | null>({
      type: ['string', 'null'],
      enum: [...coverageKinds, null],
      description: `Why the rule never decides or is not needed. ${kindsText} Null for all others, and for expired rules.`,
    }),
    covered_by: Type.Array(Id('ipr'), {
      description: `The rules that cover it, by address; at most ${maxNamed}.`,
    }),
    covered_by_count: Type.Integer({ description: 'How many rules cover it.' }),
  },
  { title: 'RuleEvidence' },
)
export type RuleEvidence = Static<typeof RuleEvidence>

export const RuleEvidenceQuery = Closed({
  ...PageParameters,
  before_id: BeforeId('ipr'),
  unused_since: Type.Optional(
    Type.Unsafe<string>({
      type: 'string',
      format: 'date-time',
      'x-maxBytes': 40,
      'x-moment': true,
      examples: ['2030-01-31T12:00:00Z'],
      description:
        'Return only rules that were counted since this moment or longer, and have not decided since. RFC 3339.',
    }),
  ),
  covered: Type.Optional(
    Type.Unsafe<(typeof coverageKinds)[number]>({
      type: 'string',
      enum: [...coverageKinds],
      description: `Return only these rules. ${kindsText}`,
    }),
  ),
})

export const RuleEvidenceList = Closed(
  {
    rule_evidence: Type.Array(RuleEvidence),
    nodes_not_counting: Type.Integer({
      description:
        'Number of known edge nodes whose counts may be missing: they are not live, or of a version that does not count.',
    }),
    uri: Uri,
    next_page_uri: Type.Unsafe<string | null>({ type: ['string', 'null'] }),
  },
  { title: 'RuleEvidenceList' },
)

/** To remove more, repeat the call or replace all rules. */
export const maxRemoved = 1_000
export const RulesRemove = Closed({
  rule_ids: Type.Array(Id('ipr'), {
    minItems: 1,
    maxItems: maxRemoved,
    description: 'Rules of this policy. Those that are gone already are skipped.',
  }),
})
export const RulesRemoveQuery = Closed({
  ...someRulesGuard.query.properties,
  ...ConfirmQuery.properties,
  ...EdgeChangeQuery,
})
export const RulesRemoved = Closed(
  {
    ip_policy: Ref,
    rules: Type.Integer({ description: 'Number of rules the policy has now.' }),
    removed: Type.Integer(),
  },
  { title: 'RulesRemoved' },
)
