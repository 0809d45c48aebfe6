import { queryOptions } from '@tanstack/react-query'
import { answerOf, api, type Shapes } from '../../api/client.ts'
import { keyOf, type Rule } from '../../rules.ts'
import { Icon } from '../../ui/icons.tsx'
import type { Column } from '../../ui/table_model.ts'
import { Ago } from '../../ui/time.tsx'

export type RuleEvidence = Shapes['RuleEvidence']
export type Evidence = {
  of: (rule: Rule) => RuleEvidence | undefined
  byId: (id: string) => RuleEvidence | undefined
  /** Keys of shadowed and redundant rules, and of rules without recent hits. */
  needless: ReadonlySet<string>
  unused: ReadonlySet<string>
  most: number
  nodesNotCounting: number
  /** False if the policy has more rules than are read. */
  isWhole: boolean
}

/** 12,000 rules, as for other lists of the dashboard. Use the API or `ip-policies prune` for larger policies. */
const mostPages = 120
export const unusedDays = 30
const unusedMs = unusedDays * 24 * 60 * 60 * 1_000

async function readEvidence(id: string): Promise<Evidence> {
  const all: RuleEvidence[] = []
  let nodesNotCounting = 0
  let isWhole = false
  for (let pages = 0; pages < mostPages && !isWhole; pages++) {
    const query = { limit: 100, before_id: all.at(-1)?.id }
    const page = await answerOf(api.GET('/ip_policies/{id}/rule_evidence', { params: { path: { id }, query } }))
    all.push(...page.rule_evidence)
    nodesNotCounting = page.nodes_not_counting
    isWhole = page.next_page_uri === null
  }
  const byKey = new Map(all.map((rule) => [keyOf(rule), rule]))
  const byId = new Map(all.map((rule) => [rule.id, rule]))
  return {
    of: (rule) => byKey.get(keyOf(rule)),
    byId: (ruleId) => byId.get(ruleId),
    needless: new Set(all.filter(isNeedless).map(keyOf)),
    unused: new Set(all.filter(isUnused).map(keyOf)),
    most: all.reduce((most, { hits_30d }) => Math.max(most, hits_30d), 0),
    nodesNotCounting,
    isWhole,
  }
}

/** How often each rule decided, and which rules never can. */
export const evidenceOf = (id: string) =>
  queryOptions({
    queryKey: ['get', '/ip_policies/{id}/rules', id, 'evidence'],
    structuralSharing: false,
    refetchOnWindowFocus: false,
    staleTime: 15_000,
    queryFn: () => readEvidence(id),
  })

/** Counted for long enough, without a hit since. */
const isUnused = ({ counted_since, last_hit_at }: RuleEvidence): boolean =>
  Date.parse(counted_since) <= Date.now() - unusedMs &&
  Date.parse(last_hit_at ?? counted_since) <= Date.now() - unusedMs

/** All of them can be removed together without changing a decision; subdivided rules cannot. */
const isNeedless = ({ covered }: RuleEvidence): boolean => covered === 'shadowed' || covered === 'redundant'

const count = new Intl.NumberFormat('en')

/** Logarithmic, because one busy rule would otherwise make all others look alike. */
const shareOf = (hits: number, most: number): number =>
  hits === 0 ? 0 : Math.max(0.04, Math.log10(hits + 1) / Math.log10(most + 1))

export const evidenceColumns = (evidence: Evidence): Column<Rule>[] => [
  {
    title: `Hits, ${unusedDays} days`,
    className: 'number hide-small',
    width: '170px',
    sortBy: (rule) => evidence.of(rule)?.hits_30d ?? -1,
    cell: (rule) => {
      const hits = evidence.of(rule)?.hits_30d
      if (hits === undefined) return <span className="soft">–</span>
      return (
        <span className="hits">
          <span className={hits === 0 ? 'soft' : undefined}>{count.format(hits)}</span>
          <svg className="hit-bar low" viewBox="0 0 64 4" aria-hidden="true">
            <rect width="64" height="4" rx="2" className="hit-ground" />
            <rect width={64 * shareOf(hits, evidence.most)} height="4" rx="2" className="hit-fill" />
          </svg>
        </span>
      )
    },
  },
  {
    title: 'Last hit',
    className: 'hide-small',
    width: '120px',
    sortBy: (rule) => evidence.of(rule)?.last_hit_at ?? '',
    cell: (rule) => {
      const found = evidence.of(rule)
      if (!found) return <span className="soft">–</span>
      return <span className="soft">{found.last_hit_at ? <Ago at={found.last_hit_at} /> : 'Never'}</span>
    },
  },
]

const words = { shadowed: 'Shadowed by', redundant: 'Covered by', subdivided: 'Divided up by' } as const

/** Why a rule may be unnecessary; empty for a rule that is needed. */
export function Verdict({ rule, evidence }: { rule: Rule; evidence: Evidence | undefined }) {
  const found = evidence?.of(rule)
  if (!found) return null
  if (found.covered) {
    const [by] = found.covered_by
    const cover = by ? evidence?.byId(by) : undefined
    const others = found.covered_by_count - 1
    return (
      <span className="why">
        <Icon name="warned" />
        {words[found.covered]} <span className="mono">{cover ? `${cover.action} ${cover.cidr}` : 'other rules'}</span>
        {cover && others > 0 && ` and ${count.format(others)} more`}
      </span>
    )
  }
  if (!isUnused(found)) return null
  return (
    <span className="why" title={`Counted since ${found.counted_since.slice(0, 10)}`}>
      <Icon name="clock" />
      Unused since {(found.last_hit_at ?? found.counted_since).slice(0, 10)}
    </span>
  )
}
