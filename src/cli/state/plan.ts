import { isDeepStrictEqual } from 'node:util'
import {
  canBeSet,
  createSchemas,
  isReferableId,
  type Json,
  type Kind,
  kinds,
  type Rule,
  type Thing,
  toBody,
} from './kinds.ts'
import { matchThings, type Pairs } from './match.ts'
import { narrowed } from './narrow.ts'
import { markOf, type StateFile } from './read.ts'
import { fieldsClass, type Stage, stages } from './stages.ts'

/** One request. Resources that do not exist yet appear as marks, in the path and in the body. */
export type Step = {
  readonly stage: Stage
  readonly verb: 'create' | 'update' | 'delete'
  readonly thing: Thing
  /** The account's version at the time of the plan, if it existed. */
  readonly present?: Thing
  readonly method: 'POST' | 'PATCH' | 'PUT' | 'DELETE'
  readonly path: readonly string[]
  readonly body?: Json
  /** The mark that the response resolves. */
  readonly makes?: string
}
export type Difference = { readonly wanted?: Thing; readonly present?: Thing; readonly names: readonly string[] }
export type Plan = {
  readonly differences: readonly Difference[]
  readonly steps: readonly Step[]
  /** Only in the account: `sync` deletes it, `apply` does not. */
  readonly surplus: readonly Thing[]
  readonly pairs: Pairs
}

const pathOf = (thing: Thing, id: string, edgeId = ''): string[] =>
  thing.kind === 'routes' ? ['/edges/https/', edgeId, '/routes/', id] : [`${kinds[thing.kind].path}/`, id]

type Way = {
  /** Whether to delete what is only in the account: `sync` does, `apply` does not. */
  readonly deletes: boolean
  /** All steps take effect at once, so policies in use need not be narrowed first. */
  readonly isWhole?: boolean
}

/** Pure. Orders the steps so that nothing is open meanwhile that is not open before or after. */
export function planState(file: StateFile, account: readonly Thing[], { deletes, isWhole = false }: Way): Plan {
  const present = (kind: Kind) => account.filter((thing) => thing.kind === kind)
  const pairs = new Map<Thing, Thing>()
  const idOfMark = new Map<string, string>()
  const wantedOf = (kind: Kind) => (file.sections[kind] ?? []).map((thing) => resolveMarks(thing, idOfMark))
  const all: { kind: Kind; wanted: readonly Thing[] }[] = []
  // Referenced kinds first, so that references can be compared by id.
  for (const kind of Object.keys(kinds) as Kind[]) {
    if (!file.sections[kind]) continue
    const wanted = wantedOf(kind)
    for (const [thing, found] of matchThings(wanted, present(kind))) pairs.set(thing, found)
    for (const thing of wanted) {
      const found = pairs.get(thing)
      if (found?.id) idOfMark.set(markOf(kind, thing.name), found.id)
      if (found && thing.routes)
        for (const [route, match] of matchThings(thing.routes, found.routes ?? [])) pairs.set(route, match)
    }
    all.push({ kind, wanted })
  }

  const kept = new Set(pairs.values())
  const surplus = all.flatMap(({ kind }) => present(kind).filter((thing) => !kept.has(thing)))
  const surplusRoutes = all.flatMap(({ wanted }) =>
    wanted.flatMap((thing) =>
      (pairs.get(thing)?.routes ?? []).filter((route) => !kept.has(route)).map((route) => ({ route, edge: thing })),
    ),
  )
  const inUse = new Set(
    account.flatMap(({ fields, routes = [] }) => [fields, ...routes.map((route) => route.fields)]).flatMap(idsIn),
  )
  const context = { pairs, inUse: isWhole ? new Set<string>() : inUse }
  const steps = [
    ...all.flatMap(({ wanted }) => wanted.flatMap((thing) => stepsFor(thing, context))),
    ...(deletes
      ? [
          // Wide routes first: a remaining wide one would take the requests that narrow ones refuse.
          ...surplusRoutes
            .toSorted((a, b) => narrowness(a.route) - narrowness(b.route))
            .map(({ route, edge }) => deletion(route, pairs.get(edge)?.id)),
          // Referring resources before those that they refer to.
          ...surplus.toReversed().map((thing) => deletion(thing)),
        ]
      : []),
  ]
  return {
    differences: [
      ...all.flatMap(({ wanted }) => wanted.flatMap((thing) => differencesOf(thing, pairs))),
      ...surplusRoutes.map(({ route }) => ({ present: route, names: [] })),
      ...surplus.map((thing) => ({ present: thing, names: [] })),
    ],
    // A stable sort keeps the order of kinds within a stage.
    steps: steps.toSorted((a, b) => stages.indexOf(a.stage) - stages.indexOf(b.stage)),
    surplus: [...surplus, ...surplusRoutes.map(({ route }) => route)],
    pairs,
  }
}

function resolveMarks(thing: Thing, idOfMark: ReadonlyMap<string, string>): Thing {
  const routes = thing.routes?.map((route) => resolveMarks(route, idOfMark))
  return { ...thing, fields: replaceText(thing.fields, idOfMark) as Json, ...(routes && { routes }) }
}

/** Every mark, at any depth, including keys. */
export function replaceText(value: unknown, by: ReadonlyMap<string, string>): unknown {
  if (typeof value === 'string') return by.get(value) ?? value
  if (Array.isArray(value)) return value.map((each) => replaceText(each, by))
  if (value === null || typeof value !== 'object') return value
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [by.get(name) ?? name, replaceText(each, by)]))
}

function idsIn(value: unknown): string[] {
  if (typeof value === 'string') return isReferableId(value) ? [value] : []
  return value && typeof value === 'object' ? Object.values(value).flatMap(idsIn) : []
}

const hostports = ({ fields }: Thing) => (fields.hostports ?? []) as string[]

/** Differing fields. A field without a known default that is missing from the file is left alone. */
export const changedFields = (wanted: Thing, present: Thing): string[] =>
  [...new Set([...Object.keys(wanted.fields), ...Object.keys(present.fields)])].filter(
    (name) =>
      !isDeepStrictEqual(wanted.fields[name], present.fields[name]) && canBeSet(wanted.kind, name, wanted.fields[name]),
  )

const ruleKey = (rule: Rule) =>
  JSON.stringify([rule.cidr, rule.action, rule.description, rule.metadata, rule.expires_at])
export function ruleChanges(
  wanted: readonly Rule[] = [],
  present: readonly Rule[] = [],
): { added: Rule[]; removed: Rule[] } {
  const [before, after] = [new Set(present.map(ruleKey)), new Set(wanted.map(ruleKey))]
  return {
    added: wanted.filter((rule) => !before.has(ruleKey(rule))),
    removed: present.filter((rule) => !after.has(ruleKey(rule))),
  }
}

function differencesOf(wanted: Thing, pairs: Pairs): Difference[] {
  const present = pairs.get(wanted)
  const below = (wanted.routes ?? []).flatMap((route) => differencesOf(route, pairs))
  if (!present) return [{ wanted, names: Object.keys(wanted.fields) }, ...below]
  const names = changedFields(wanted, present)
  const { added, removed } = ruleChanges(wanted.rules, present.rules)
  const own = names.length || added.length || removed.length ? [{ wanted, present, names }] : []
  return [...own, ...below]
}

type Context = { pairs: Pairs; inUse: ReadonlySet<string> }

function stepsFor(wanted: Thing, context: Context): Step[] {
  const present = context.pairs.get(wanted)
  return present ? updates(wanted, present, context) : creations(wanted)
}

const creation = (thing: Thing, stage: Stage, path: string[], fields: Json): Step => ({
  stage,
  verb: 'create',
  thing,
  method: 'POST',
  path,
  body: toBody(createSchemas[thing.kind], fields, Object.keys(fields)),
  makes: markOf(thing.kind, thing.name),
})

const rulesStep = (thing: Thing, stage: Stage, id: string, rules = thing.rules, present?: Thing): Step => ({
  stage,
  verb: 'update',
  thing,
  ...(present && { present }),
  method: 'PUT',
  path: ['/ip_policies/', id, '/rules'],
  body: { rules },
})

function creations(thing: Thing): Step[] {
  const { kind, fields, rules, routes = [] } = thing
  if (kind === 'routes') throw new Error('routes are made with their edge')
  const { path } = kinds[kind]
  const mark = markOf(kind, thing.name)
  switch (kind) {
    case 'ip_policies':
      return [creation(thing, 'prepare', [path], fields), ...(rules?.length ? [rulesStep(thing, 'prepare', mark)] : [])]
    case 'backends':
    case 'http_response_backends':
    case 'weighted_backends':
    case 'failover_backends':
    case 'reserved_domains':
      return [creation(thing, 'prepare', [path], fields)]
    case 'ip_restrictions':
      return [creation(thing, 'tighten', [path], fields)]
    case 'tcp_edges':
      return [creation(thing, 'loosen', [path], fields)]
    case 'https_edges': {
      // Unreachable until it has all routes: a wide one alone would take requests that a narrower one refuses.
      const { hostports: wanted, ...hidden } = fields
      const shown: Step = {
        stage: 'loosen',
        verb: 'update',
        thing,
        method: 'PATCH',
        path: pathOf(thing, mark),
        body: { hostports: wanted },
      }
      return [
        creation(thing, 'prepare', [path], hidden),
        ...routes.map((route) => creation(route, 'prepare', [`${path}/`, mark, '/routes'], route.fields)),
        ...(wanted ? [shown] : []),
      ]
    }
  }
}

/**
 * A policy in use changes in two steps: first to what both versions allow and, after everything else, to the new
 * version.
 */
function ruleUpdates(wanted: Thing, policy: Thing, isInUse: boolean): Step[] {
  const { id = '', rules: present = [] } = policy
  const differ = (a: readonly Rule[] = [], b: readonly Rule[] = []) =>
    Object.values(ruleChanges(a, b)).some(({ length }) => length > 0)
  if (!differ(wanted.rules, present)) return []
  if (!isInUse) return [rulesStep(wanted, 'prepare', id, wanted.rules, policy)]
  const both = narrowed(present, wanted.rules ?? [])
  return [
    ...(differ(both, present) ? [rulesStep(wanted, 'tighten', id, both, policy)] : []),
    ...(differ(wanted.rules, both) ? [rulesStep(wanted, 'widen', id, wanted.rules, policy)] : []),
  ]
}

function updates(wanted: Thing, present: Thing, context: Context, edgeId?: string): Step[] {
  const id = present.id ?? ''
  const names = changedFields(wanted, present)
  const isHidden = wanted.kind === 'https_edges' && hostports(present).length === 0
  const patch = (stage: Stage, fields: Json): Step => ({
    stage,
    verb: 'update',
    thing: wanted,
    present,
    method: 'PATCH',
    path: pathOf(wanted, id, edgeId),
    body: toBody(createSchemas[wanted.kind], fields, Object.keys(fields)),
  })
  // Removed hostports first, added ones last, and other changes in between.
  const stay = hostports(present).filter((each) => hostports(wanted).includes(each))
  const others = names.filter((name) => name !== 'hostports').map((name) => [name, wanted.fields[name]])
  const isReordered =
    names.includes('hostports') && [present, wanted].every((thing) => hostports(thing).length === stay.length)
  const stage = fieldsClass(wanted, present)
  const parts: [Stage, Json][] = (['tighten', 'change', 'loosen'] as const).map((each) => [
    each,
    {
      ...(each === stage && Object.fromEntries(others)),
      ...(each === 'tighten' && stay.length < hostports(present).length && { hostports: stay }),
      // The same hostports in another order.
      ...(each === 'change' && isReordered && { hostports: hostports(wanted) }),
      ...(each === 'loosen' && stay.length < hostports(wanted).length && { hostports: hostports(wanted) }),
    },
  ])
  return [
    ...ruleUpdates(wanted, present, context.inUse.has(id)),
    ...parts.filter(([, fields]) => Object.keys(fields).length).map(([each, fields]) => patch(each, fields)),
    ...(wanted.routes ?? []).flatMap((route) => {
      const match = context.pairs.get(route)
      return match ? updates(route, match, context, id) : []
    }),
    // Narrow ranges first: a wide one alone would admit addresses that they deny.
    ...(wanted.routes ?? [])
      .filter((route) => !context.pairs.has(route))
      .toSorted((a, b) => narrowness(b) - narrowness(a))
      .map((route) => creation(route, isHidden ? 'prepare' : 'change', ['/edges/https/', id, '/routes'], route.fields)),
  ]
}

/** The longest prefix wins, and an exact path wins over all prefixes. */
const narrowness = ({ fields: { match_type, match } }: Thing): number =>
  match_type === 'exact_path' ? Number.MAX_SAFE_INTEGER : String(match).length

/** Deleting an edge closes something, and may free a hostport for another. A route must not see rules widen. */
const deletionStage: Partial<Record<Thing['kind'], Stage>> = {
  tcp_edges: 'tighten',
  https_edges: 'tighten',
  routes: 'change',
}

const deletion = (thing: Thing, edgeId?: string): Step => ({
  stage: deletionStage[thing.kind] ?? 'delete',
  verb: 'delete',
  thing,
  present: thing,
  method: 'DELETE',
  path: pathOf(thing, thing.id ?? '', edgeId),
})
