import type { Action } from '../../kernel/ip/ranges.ts'

/** A rule in the past. Its id is unknown if a replacement of the whole set removed it. */
export type PastRule = { action: Action; expiresAt: number | null; id: string | null }
/** Rules of one policy by range. Only ranges that contain the address. */
export type PastRules = ReadonlyMap<string, PastRule>
type Deciding = { enforced: boolean; policies: readonly string[] }

/** Everything that decided about one address at a place, at some moment. Ids are as in the audit log. */
export type World = {
  readonly rules: Map<string, Map<string, PastRule>>
  /** Policies whose rules at that moment were not recorded. */
  readonly unknown: Map<string, PastEvent>
  readonly restrictions: Map<string, Deciding>
  /** Policies of the module of the edge or route, if it is enabled. */
  module: readonly string[] | undefined
}

export type PastEvent = {
  id: string
  at: number
  operation: string
  operation_id: string
  resource_id: string
  owner_id: string | null
  api_key_id: string | null
  before: Fields | null
  after: Fields | null
}
export type Fields = Record<string, unknown>

/** How a bulk change altered the rules around the address. */
export type RuleSetDelta = { removed: PastRules; added: readonly string[] }

export type Subject = {
  readonly type: string
  readonly target: string | null
  /** Whether a canonical range contains the address. */
  readonly isAround: (cidr: string) => boolean
  /** Undefined if it was never recorded or has been deleted. */
  readonly deltaOf: (event: PastEvent) => RuleSetDelta | undefined
}

export type Cause =
  | { kind: 'change'; event: PastEvent }
  | { kind: 'expiry'; at: number; cidr: string; ruleId: string | null; policyId: string }
  | { kind: 'unknown'; reason: string }

export type PastVerdict = 'allowed' | 'refused' | { unknownSince: PastEvent }

/**
 * Finds the change, or the expiry of a rule, that started the current refusal: going back from now, the first before
 * which the address was let in. `events` are latest first. Reverts the world step by step.
 */
export function causeOf(
  world: World,
  events: readonly PastEvent[],
  subject: Subject,
  now: number,
  since: number,
): Cause {
  // Rules were read in one snapshot, but after the decision itself.
  if (verdictAt(world, now) !== 'refused') return unknown('The rules were changed while this was looked up. Try again.')
  let until = now
  for (const event of events) {
    if (!concerns(event, world, subject)) continue
    const from = Math.min(event.at, until)
    const expired = expiryBetween(world, from, until)
    if (expired) return expired
    if (event.resource_id === subject.target && event.operation.endsWith('.create')) break
    undo(world, event, subject)
    const verdict = verdictAt(world, from)
    if (verdict === 'allowed') return { kind: 'change', event }
    if (typeof verdict === 'object') return unknown(notRecorded(verdict.unknownSince))
    until = from
  }
  return expiryBetween(world, since, until) ?? unknown('No recorded change explains it.')
}

const unknown = (reason: string): Cause => ({ kind: 'unknown', reason })
const notRecorded = ({ operation, resource_id }: PastEvent) =>
  `The rules before ${operation} of ${resource_id} are not recorded any more.`

/** The latest expiry in that period that turned the decision into a refusal. */
function expiryBetween(world: World, from: number, until: number): Cause | undefined {
  const expiries = [...world.rules].flatMap(([policyId, rules]) =>
    [...rules].flatMap(([cidr, { expiresAt, id }]) =>
      expiresAt !== null && expiresAt > from && expiresAt <= until
        ? [{ kind: 'expiry' as const, at: expiresAt, cidr, ruleId: id, policyId }]
        : [],
    ),
  )
  expiries.sort((a, b) => b.at - a.at)
  for (const expiry of expiries) {
    const verdict = verdictAt(world, expiry.at - 1)
    if (verdict === 'allowed') return expiry
    if (typeof verdict === 'object') return unknown(notRecorded(verdict.unknownSince))
  }
  return undefined
}

/** Like decide(), for rules that may be partly unknown. */
export function verdictAt({ rules, unknown: unknownRules, restrictions, module }: World, at: number): PastVerdict {
  const deciders = [...restrictions.values()].filter(({ enforced }) => enforced).map(({ policies }) => policies)
  if (module) deciders.unshift(module)
  let missing: PastEvent | undefined
  for (const policies of deciders) {
    const active = policies.flatMap((id) =>
      [...(rules.get(id)?.values() ?? [])].filter(({ expiresAt }) => expiresAt === null || expiresAt > at),
    )
    if (active.some(({ action }) => action === 'deny')) return 'refused'
    const notKnown = policies.map((id) => unknownRules.get(id)).find((event) => event !== undefined)
    if (notKnown) missing ??= notKnown
    else if (active.length === 0) return 'refused'
  }
  return missing ? { unknownSince: missing } : 'allowed'
}

/** Bulk changes: their events hold only the number of rules. */
export const ruleSetOperations = ['ip_policies.replace_rules', 'ip_policies.remove_rules', 'ip_policies.delete']
const isRestriction = ({ resource_id }: PastEvent) => resource_id.startsWith('ipx_')
const isRule = ({ resource_id }: PastEvent) => resource_id.startsWith('ipr_')

function concerns(event: PastEvent, world: World, subject: Subject): boolean {
  const { operation, resource_id, before, after } = event
  if (isRestriction(event)) return (before ?? after)?.type === subject.type
  if (isRule(event))
    return [before, after].some((rule) => typeof rule?.cidr === 'string' && subject.isAround(rule.cidr))
  if (ruleSetOperations.includes(operation)) return !world.unknown.has(resource_id)
  return (
    resource_id === subject.target && ('ip_restriction' in { ...before, ...after } || operation.endsWith('.create'))
  )
}

function undo(world: World, event: PastEvent, subject: Subject): void {
  const { operation, resource_id, before, after } = event
  if (isRestriction(event)) {
    if (before) world.restrictions.set(resource_id, toDeciding(before))
    else world.restrictions.delete(resource_id)
  } else if (isRule(event)) {
    if (after) rulesOf(world, after).delete(String(after.cidr))
    if (before && subject.isAround(String(before.cidr)))
      rulesOf(world, before).set(String(before.cidr), toRule(before, resource_id))
  } else if (ruleSetOperations.includes(operation)) undoRuleSet(world, event, subject)
  else world.module = toModule(before?.ip_restriction)
}

function undoRuleSet(world: World, event: PastEvent, subject: Subject): void {
  const delta = subject.deltaOf(event)
  if (!delta) {
    world.unknown.set(event.resource_id, event)
    return
  }
  const rules = rulesOfPolicy(world, event.resource_id)
  for (const cidr of delta.added) rules.delete(cidr)
  for (const [cidr, rule] of delta.removed) rules.set(cidr, rule)
}

function rulesOfPolicy({ rules }: World, policyId: string): Map<string, PastRule> {
  const known = rules.get(policyId) ?? new Map<string, PastRule>()
  rules.set(policyId, known)
  return known
}
const rulesOf = (world: World, rule: Fields) => rulesOfPolicy(world, idOf(rule.ip_policy))

const toRule = ({ action, expires_at }: Fields, id: string): PastRule => ({
  action: action === 'allow' ? 'allow' : 'deny',
  expiresAt: typeof expires_at === 'string' ? Date.parse(expires_at) : null,
  id,
})
const toDeciding = ({ enforced, ip_policies }: Fields): Deciding => ({
  enforced: enforced === true,
  policies: idsOf(ip_policies),
})

function toModule(module: unknown): readonly string[] | undefined {
  const { enabled, mode, ip_policies } = (module ?? { enabled: false }) as Fields
  return enabled === false || mode === 'warn' ? undefined : idsOf(ip_policies)
}

const idOf = (ref: unknown): string => String((ref as { id?: unknown } | undefined)?.id)
const idsOf = (refs: unknown): string[] => (Array.isArray(refs) ? refs.map(idOf) : [])

/** All policies that the events name; each may have decided at some time. */
export const policiesIn = (events: readonly PastEvent[]): string[] =>
  events.flatMap(({ before, after }) =>
    [before, after].flatMap((fields) => [
      ...idsOf(fields?.ip_policies),
      ...idsOf((fields?.ip_restriction as Fields | null | undefined)?.ip_policies),
    ]),
  )
