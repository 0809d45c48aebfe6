import { type Db, many } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import type { Uuid } from '../../kernel/ids.ts'
import { refusing } from '../module_mode.ts'
import { loadOutline, type RestrictionOutline, type RestrictionType } from '../policies.ts'
import { routesOfPath } from '../tests/route_of_path.ts'
import type { Scope } from './scope.ts'

/** A restriction or module that decides about addresses at a place. Unenforced, it only warns. */
export type Deciding = { readonly enforced: boolean; readonly policies: readonly { id: Uuid; revision: number }[] }

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

/** All restrictions, TCP edges and routes at one moment. */
export type Places = {
  readonly restrictions: readonly RestrictionOutline[]
  readonly targets: ReadonlyMap<Uuid, Target>
  /** The account has more edges and routes than are compared. */
  readonly isCut: boolean
}

/** A limit is needed because one change can restrict every edge and route of an account. */
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

/** Types of traffic whose restrictions the change touches. */
export const typesIn = ({ types, policies }: Scope, restrictions: readonly RestrictionOutline[]): RestrictionType[] => [
  ...new Set([
    ...types,
    ...restrictions.filter((each) => each.policies.some(({ id }) => policies.includes(id))).map(({ type }) => type),
  ]),
]

/** A dashboard session must also pass the restrictions of the API. */
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

/** True if the policies and their rules are the same; nothing else makes a difference. */
export const isSame = (one: readonly Deciding[], other: readonly Deciding[]): boolean =>
  signatureOf(one) === signatureOf(other)
const signatureOf = (deciding: readonly Deciding[]): string =>
  deciding
    .map(({ enforced, policies }) => `${enforced} ${policies.map(({ id, revision }) => `${id} ${revision}`)}`)
    .sort()
    .join('\n')

/** The route that receives the requests of a missing one. */
export function routeInPlaceOf({ targets }: Places, gone: Target): Target | undefined {
  if (gone.kind === 'tcp') return undefined
  const others = [...targets.values()].filter(
    (each) =>
      each.parent_id !== null &&
      each.parent_id === gone.parent_id &&
      each.id !== gone.id &&
      // A route for exactly this path keeps only its own requests when the prefix beside it is removed.
      (gone.match_type === 'exact_path' || each.match_type === 'path_prefix'),
  )
  return routesOfPath(
    others.map((each) => ({ ...each, guards: false })),
    gone.match,
  ).serving
}

/** True if a place receives other requests than before, so the addresses seen there allow no conclusion. */
export const isMoved = (before: Target, after: Target): boolean =>
  before.match !== after.match ||
  before.match_type !== after.match_type ||
  before.hostports.some((each) => !after.hostports.includes(each)) ||
  String(before.cells) !== String(after.cells)
