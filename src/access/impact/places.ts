import { type Db, many } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import type { Uuid } from '../../kernel/ids.ts'
import { refusing } from '../module_mode.ts'
import { loadOutline, type RestrictionOutline, type RestrictionType } from '../policies.ts'
import { routesOfPath } from '../tests/route_of_path.ts'
import type { Scope } from './scope.ts'

/** What decides about the addresses at a place. Unenforced, it only warns. */
export type Deciding = { readonly enforced: boolean; readonly policies: readonly { id: Uuid; revision: number }[] }

/** A TCP edge or a route. */
export type Target = {
  readonly id: Uuid
  readonly kind: 'tcp' | 'route'
  readonly parent_id: Uuid | null
  readonly match_type: 'exact_path' | 'path_prefix'
  readonly match: string
  readonly hostports: readonly string[]
  readonly cells: readonly string[] | null
  readonly module: Deciding | null
}

/** What decides where, at one moment. */
export type Places = {
  readonly restrictions: readonly RestrictionOutline[]
  readonly targets: ReadonlyMap<Uuid, Target>
  /** There are more edges and routes than are compared. */
  readonly isCut: boolean
}

/** An account with more can restrict all of them with one change. */
const maxTargets = 10_000

export async function loadPlaces(db: Db, accountId: Uuid, scope: Scope): Promise<Places> {
  const { restrictions } = await loadOutline(db, accountId)
  const isAll = typesIn(scope, restrictions).includes('endpoints')
  const which = isAll
    ? sql`true`
    : sql`e.id = any(array(
        select id from unnest(${scope.targets}::uuid[]) as id
        union all select id from edges where account_id = ${accountId} and parent_id = any(${scope.edges}::uuid[])
        union all select edge_id from edge_module_policies
          where account_id = ${accountId} and ip_policy_id = any(${scope.policies}::uuid[]) and module = 'ip_restriction'))`
  const rows = await many<Target>(
    db,
    sql`
    select e.id, e.kind, e.parent_id, e.match_type, e.match, coalesce(parent.cells, e.cells) as cells,
      array(select hostport from hostports h
            where h.account_id = e.account_id and h.edge_id = coalesce(e.parent_id, e.id) order by 1) as hostports,
      (select json_build_object('enforced', ${refusing}, 'policies', coalesce((
         select json_agg(json_build_object('id', i.id, 'revision', i.revision) order by p.position)
         from edge_module_policies p join ip_policies i on i.account_id = p.account_id and i.id = p.ip_policy_id
         where p.account_id = m.account_id and p.edge_id = m.edge_id and p.module = m.module), '[]'))
       from edge_modules m
       where m.account_id = e.account_id and m.edge_id = e.id and m.module = 'ip_restriction' and m.enabled) as module
    from edges e left join edges parent on parent.account_id = e.account_id and parent.id = e.parent_id
    where e.account_id = ${accountId} and e.kind in ('tcp', 'route') and ${which}
    order by e.id desc limit ${maxTargets + 1}`,
  )
  return {
    restrictions,
    targets: new Map(rows.slice(0, maxTargets).map((row) => [row.id, row])),
    isCut: rows.length > maxTargets,
  }
}

/** The types of traffic that restrictions decide about, of those that a change is about. */
export const typesIn = ({ types, policies }: Scope, restrictions: readonly RestrictionOutline[]): RestrictionType[] => [
  ...new Set([
    ...types,
    ...restrictions.filter((each) => each.policies.some(({ id }) => policies.includes(id))).map(({ type }) => type),
  ]),
]

/** A dashboard session has to pass the restrictions of the API as well. */
const decidingTypes: Readonly<Record<RestrictionType, readonly RestrictionType[]>> = {
  api: ['api'],
  dashboard: ['dashboard', 'api'],
  agent: ['agent'],
  endpoints: ['endpoints'],
}

export const decidingAbout = ({ restrictions }: Places, type: RestrictionType): Deciding[] =>
  restrictions.filter((each) => decidingTypes[type].includes(each.type))

export const decidingAt = (places: Places, { module }: Target): Deciding[] => [
  ...(module ? [module] : []),
  ...decidingAbout(places, 'endpoints'),
]

/** Only what makes a difference: the same policies with the same rules. */
export const isSame = (one: readonly Deciding[], other: readonly Deciding[]): boolean =>
  signatureOf(one) === signatureOf(other)
const signatureOf = (deciding: readonly Deciding[]): string =>
  deciding
    .map(({ enforced, policies }) => `${enforced} ${policies.map(({ id, revision }) => `${id} ${revision}`)}`)
    .sort()
    .join('\n')

/** The route that has the requests of another one where that is not there. */
export function routeInPlaceOf({ targets }: Places, gone: Target): Target | undefined {
  if (gone.kind === 'tcp') return undefined
  const others = [...targets.values()].filter(
    (each) =>
      each.parent_id !== null &&
      each.parent_id === gone.parent_id &&
      each.id !== gone.id &&
      // Beside a prefix, a route for exactly that path keeps only what it has.
      (gone.match_type === 'exact_path' || each.match_type === 'path_prefix'),
  )
  return routesOfPath(
    others.map((each) => ({ ...each, guards: false })),
    gone.match,
  ).serving
}

/** Whether a place gets other requests than before, so that those seen there say nothing of it. */
export const isMoved = (before: Target, after: Target): boolean =>
  before.match !== after.match ||
  before.match_type !== after.match_type ||
  before.hostports.some((each) => !after.hostports.includes(each)) ||
  String(before.cells) !== String(after.cells)
