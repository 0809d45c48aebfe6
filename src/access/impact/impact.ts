import type { DbPool } from '../../db/pool.ts'
import type { Uuid } from '../../kernel/ids.ts'
import { decide } from '../../kernel/ip/decide.ts'
import { type CompiledPolicy, compilePolicy } from '../../kernel/ip/ranges.ts'
import { keptPerAccount } from '../evidence/address_outcomes.ts'
import { type LastSeen, listLastSeen, listLastSeenAt } from '../evidence/last_seen.ts'
import { loadPolicy, type RestrictionType, restrictionTypes } from '../policies.ts'
import {
  type Deciding,
  decidingAbout,
  decidingAt,
  isMoved,
  isSame,
  type Places,
  routeInPlaceOf,
  type Target,
  typesIn,
} from './places.ts'
import type { Scope } from './scope.ts'

export type Becomes = 'changed' | 'created' | 'deleted'
/** Why the addresses affected at a place are not all known. */
export type Unknown = 'agents' | 'new' | 'new_in_place' | 'moved' | 'not_reported' | 'silent_nodes' | 'too_many'

export type PlaceImpact = {
  readonly type: 'api' | 'dashboard' | 'agent' | 'tcp_edge' | 'route'
  readonly target: Pick<Target, 'id' | 'parent_id'> | undefined
  readonly becomes: Becomes
  /** `none`: it is unknown which addresses were let in. */
  readonly evidence: 'complete' | 'partial' | 'none'
  readonly unknown: Unknown | undefined
  readonly seen: readonly LastSeen[]
  readonly newlyRefused: readonly LastSeen[]
  readonly newlyAllowed: readonly LastSeen[]
  readonly newlyWarned: readonly LastSeen[]
}
export type Impact = { readonly places: readonly PlaceImpact[]; readonly isCut: boolean }

/** State after the change, read before the change is rolled back. */
export type Left = { readonly places: Places; readonly policies: ReadonlyMap<Uuid, CompiledPolicy> }

type Question = {
  readonly db: DbPool
  readonly accountId: Uuid
  readonly scope: Scope
  readonly since: number
  readonly now: number
  /** Some nodes that serve the account do not report. */
  readonly areNodesSilent: boolean
}

/** The number of addresses kept for an account and type of traffic. */
const maxTried = keptPerAccount

/** Reads the rules of changed policies while the change still exists; they are lost once it is rolled back. */
export async function policiesLeft(
  db: DbPool,
  { accountId, scope, now }: Pick<Question, 'accountId' | 'scope' | 'now'>,
  { restrictions, targets }: Places,
): Promise<Map<Uuid, CompiledPolicy>> {
  const used = new Set(
    [...restrictions, ...[...targets.values()].flatMap(({ module }) => module ?? [])].flatMap(({ policies }) =>
      policies.map(({ id }) => id),
    ),
  )
  const compiled = new Map<Uuid, CompiledPolicy>()
  for (const id of scope.policies)
    if (used.has(id)) {
      const policy = await loadPolicy(db, accountId, id, now)
      if (policy) compiled.set(id, policy.ranges)
    }
  return compiled
}

/** A place where the deciding policies differ. `after` is undefined if the place lets in no address any more. */
type Compared = Pick<PlaceImpact, 'type' | 'target' | 'becomes' | 'unknown'> & {
  readonly before: readonly Deciding[]
  readonly after: readonly Deciding[] | undefined
}

/** Which of the addresses seen since then would be refused, let in or warned of. `before` is the current state. */
export async function impactOf(question: Question, before: Places, left: Left): Promise<Impact> {
  const after = left.places
  const types = typesIn(question.scope, [...before.restrictions, ...after.restrictions])
  const compared = [...comparedTypes(types, before, after), ...comparedTargets(before, after)]
  const seen = await seenAt(question, compared, before)
  const verdictOf = await verdicts(
    question,
    compared.filter((place) => seen(place).list.length > 0),
    left,
  )
  const places = compared.map((place) => impactAt(question, place, seen(place), verdictOf))
  return { places, isCut: before.isCut || after.isCut }
}

const typed = ['api', 'dashboard', 'agent'] as const

function comparedTypes(types: readonly RestrictionType[], before: Places, after: Places): Compared[] {
  return typed.flatMap((type): Compared[] => {
    const isAsked = types.includes(type) || (type === 'dashboard' && types.includes('api'))
    const place = { before: decidingAbout(before, type), after: decidingAbout(after, type) }
    if (!isAsked || isSame(place.before, place.after)) return []
    return [{ type, target: undefined, becomes: 'changed', unknown: type === 'agent' ? 'agents' : undefined, ...place }]
  })
}

const comparedTargets = (before: Places, after: Places): Compared[] =>
  [...new Set([...before.targets.keys(), ...after.targets.keys()])].flatMap((id) => {
    const [was, is] = [before.targets.get(id), after.targets.get(id)]
    const place = was && is ? changedPlace(was, is, before, after) : was ? gonePlace(was, before, after) : undefined
    return place ?? (is && !was ? (newPlace(is, before, after) ?? []) : [])
  })

const typeOf = ({ kind }: Target) => (kind === 'tcp' ? 'tcp_edge' : 'route')

function changedPlace(was: Target, is: Target, before: Places, after: Places): Compared | undefined {
  const place = { before: decidingAt(before, was), after: decidingAt(after, is) }
  const moved = isMoved(was, is)
  if (!moved && isSame(place.before, place.after)) return undefined
  return { type: typeOf(is), target: is, becomes: 'changed', unknown: moved ? 'moved' : undefined, ...place }
}

function gonePlace(was: Target, before: Places, after: Places): Compared | undefined {
  const next = routeInPlaceOf(after, was)
  const place = { before: decidingAt(before, was), after: next && decidingAt(after, next) }
  if (place.after && isSame(place.before, place.after)) return undefined
  return { type: typeOf(was), target: was, becomes: 'deleted', unknown: undefined, ...place }
}

/** The future clients of a new place are unknown. A place without any restriction is not reported. */
function newPlace(is: Target, before: Places, after: Places): Compared | undefined {
  const deciding = decidingAt(after, is)
  const former = routeInPlaceOf(before, is)
  const place = { before: former ? decidingAt(before, former) : [], after: deciding }
  if (isSame(place.before, deciding)) return undefined
  return { type: typeOf(is), target: is, becomes: 'created', unknown: former ? 'new_in_place' : 'new', ...place }
}

/** Addresses seen at each place, if they allow a conclusion about it. */
async function seenAt({ db, accountId, since }: Question, compared: readonly Compared[], before: Places) {
  const byType = new Map<string, readonly LastSeen[]>()
  for (const type of restrictionTypes)
    if (compared.some((place) => place.type === type))
      byType.set(type, await listLastSeen(db, { accountId }, type, before.restrictions, since, maxTried))
  const targets = compared.flatMap(({ target, unknown }) => (target && !unknown ? target.id : []))
  const atTargets = targets.length ? await listLastSeenAt(db, { accountId }, targets, since, maxTried) : []
  const byTarget = Map.groupBy(atTargets, ({ edgeId }) => edgeId)
  return ({ type, target }: Compared) => {
    const list = target ? byTarget.get(target.id) : byType.get(type)
    return { list: list ?? [], isCut: (target ? atTargets : (list ?? [])).length >= maxTried }
  }
}

type Verdict = 'allowed' | 'warned' | 'refused'
type VerdictOf = (deciding: readonly Deciding[] | undefined, when: 'before' | 'after', seen: LastSeen) => Verdict

/** Loads each policy once, and twice if the change alters its rules. */
async function verdicts(
  { db, accountId, now }: Question,
  compared: readonly Compared[],
  left: Left,
): Promise<VerdictOf> {
  const loaded = new Map<Uuid, CompiledPolicy>()
  for (const { id } of compared.flatMap(({ before, after = [] }) =>
    [...before, ...after].flatMap((each) => each.policies),
  ))
    if (!loaded.has(id))
      loaded.set(id, (await loadPolicy(db, accountId, id, now))?.ranges ?? left.policies.get(id) ?? compilePolicy([]))
  const rangesOf = (id: Uuid, when: 'before' | 'after') =>
    ((when === 'after' && left.policies.get(id)) || loaded.get(id)) as CompiledPolicy
  return (deciding, when, { address }) => {
    if (!deciding) return 'refused'
    const denying = deciding.filter(
      ({ policies }) =>
        !decide(
          policies.map(({ id }) => rangesOf(id, when)),
          address,
        ).allowed,
    )
    if (denying.some(({ enforced }) => enforced)) return 'refused'
    return denying.length ? 'warned' : 'allowed'
  }
}

function impactAt(
  { areNodesSilent }: Question,
  { before, after, ...place }: Compared,
  { list, isCut }: { list: readonly LastSeen[]; isCut: boolean },
  verdictOf: VerdictOf,
): PlaceImpact {
  const seen = place.unknown && place.unknown !== 'agents' ? [] : list
  const [newlyRefused, newlyAllowed, newlyWarned]: [LastSeen[], LastSeen[], LastSeen[]] = [[], [], []]
  for (const each of seen) {
    const [was, is] = [verdictOf(before, 'before', each), verdictOf(after, 'after', each)]
    if (was === is) continue
    if (is === 'refused') newlyRefused.push(each)
    else if (was === 'refused') newlyAllowed.push(each)
    else if (is === 'warned') newlyWarned.push(each)
  }
  const isReported = place.target === undefined || seen.some(({ letIn }) => letIn)
  const doubt = place.target && areNodesSilent ? 'silent_nodes' : isCut ? 'too_many' : undefined
  const unknown = place.unknown ?? (isReported ? doubt : 'not_reported')
  const evidence = unknown === undefined ? 'complete' : unknown === doubt ? 'partial' : 'none'
  return { ...place, unknown, evidence, seen, newlyRefused, newlyAllowed, newlyWarned }
}
