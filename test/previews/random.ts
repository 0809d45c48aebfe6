// Random changes, each previewed and then made. The addresses that the preview names have to be exactly those of the seen ones that are refused, or let in, after it
// and was not before. What decides is asked of what decides about requests, not of what previews are made with.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { type DbPool, many } from '../../src/db/pool.ts'
import { sql } from '../../src/db/sql.ts'
import { toId, toUuid, type Uuid } from '../../src/kernel/ids.ts'
import type { Answer } from '../harness/client.ts'
import type { Account, ControlPlane } from '../harness/control_plane.ts'
import { from } from '../harness/ip.ts'
import { poll } from '../harness/poll.ts'
import { randomBelow } from '../harness/random.ts'
import { type Browser, signIn } from '../harness/session.ts'

type Plane = Pick<ControlPlane, 'db'>
/** Whether a request gets through. `see` lets traffic flow, so that there is something to be seen. */
export type Reach = {
  route: (path: string, ip: string) => Promise<boolean>
  tcp: (ip: string) => Promise<boolean>
  see: (world: World) => Promise<void>
}
export type World = { plane: Plane; admin: Account; reach: Reach; edge: string; tcpHostport: string; backend: string }
type InSession = World & { session: Browser }
export type Route = { id: string; uri: string; match_type: string; match: string }
/** A path that this route has, and no other route of the same match. */
export const pathAt = ({ match_type, match }: Route) =>
  match_type === 'exact_path' ? match : `${match}/p`.replace('//', '/')

type Place = { key: string; type: string; isLetIn: (ip: string) => Promise<boolean> }
type Shown = { addresses: { ip: string }[]; total: number }
/** `notKnown`: addresses that were refused or let in where the preview had said that it does not know who comes. */
type Counts = Record<'changes' | 'refused' | 'allowed' | 'unknown' | 'notKnown' | 'rejected', number>

export const edgeIps = [2, 3, 4, 6].map((last) => `127.0.0.${last}`)
const apiIps = [2, 3, 4].map((last) => `192.0.2.${last}`)
const paths = ['/', '/a', '/a/b']
const own = '127.0.0.1/32'
const ranges = ['2/32', '2/31', '4/30', '6/32'].flatMap((end) => [`127.0.0.${end}`, `192.0.2.${end}`])

/** Undefined if there is none, although its type does not say so. */
const oneOf = <Item>(items: readonly Item[]): Item => items[randomBelow(items.length)] as Item
const someOf = <Item>(items: readonly Item[]): Item[] => items.filter(() => randomBelow(2) === 0)

export async function previewAtRandom(installed: World, changes: number): Promise<Counts> {
  const world = { ...installed, session: await signIn(installed.admin) }
  const counts: Counts = { changes: 0, refused: 0, allowed: 0, unknown: 0, notKnown: 0, rejected: 0 }
  for (let count = 0; count < 3; count++) await policy(world)
  const { admin, session } = world
  for (const ip of apiIps)
    for (const call of [admin, session]) assert.equal((await call('GET', '/caller', undefined, from(ip))).status, 200)
  await poll(
    () => seenAt(world),
    (seen) => ['api', 'dashboard'].every((type) => apiIps.every((ip) => seen.get(type)?.has(ip))),
  )
  while (counts.changes < changes) await previewOne(world, counts)
  return counts
}

async function policy({ admin }: World) {
  const { body } = await admin('POST', '/ip_policies', {})
  const rules = [own, ...ranges].map((cidr) => ({ cidr, action: 'allow' }))
  assert.equal((await admin('PUT', `/ip_policies/${body.id}/rules`, { rules })).status, 200)
}

async function previewOne(world: InSession, counts: Counts): Promise<void> {
  const { reach } = world
  await reach.see(world)
  const change = await randomChange(world)
  if (!change) return
  // Sometimes together with others, as a change set.
  const others = randomBelow(3) === 0 ? [await randomChange(world), await randomChange(world)] : []
  const changes = [change, ...others.filter((each) => each !== undefined)]
  const places = await placesOf(world)
  const seen = await seenAt(world)
  const before = await letInAt(places)
  const { preview, made, seenLater } = changes.length > 1 ? await together(world, changes) : await alone(world, change)
  if (preview.status !== 200 || made.status >= 300) {
    assert.deepEqual([preview.status, preview.body.error_code], [made.status, made.body.error_code], made.text)
    counts.rejected++
    return
  }
  counts.changes++
  const after = await letInAt(places)
  judge({ told: JSON.stringify(changes), impact: preview.body.impact, places, before, after, seen, seenLater }, counts)
}

type Tried = { preview: Answer; made: Answer; seenLater: Map<string, Set<string>> }

async function alone(world: InSession, [method, path, body]: Change): Promise<Tried> {
  const { admin } = world
  const separator = path.includes('?') ? '&' : '?'
  const preview = await admin(method, `${path}${separator}dry_run=true`, body)
  // Nodes report at any time, so the preview may know of some more.
  const seenLater = await seenAt(world)
  return { preview, made: await admin(method, path, body), seenLater }
}

async function together(world: InSession, changes: readonly Change[]): Promise<Tried> {
  const { admin } = world
  const draft = await admin('POST', '/change_sets', { changes: changes.map(planned) })
  if (draft.status !== 201) return { preview: draft, made: draft, seenLater: new Map() }
  const preview = await admin('POST', `/change_sets/${draft.body.id}/preview`, {})
  const seenLater = await seenAt(world)
  const made = await admin('POST', `/change_sets/${draft.body.id}/apply?wait=applied&confirm=true`, {})
  return { preview, made, seenLater }
}

const { paths: documented } = JSON.parse(readFileSync(new URL('../../openapi.json', import.meta.url), 'utf8'))

/** As a change set has it. */
function planned([method, uri, body]: Change) {
  const path = uri.replace(/\?.*/, '').replace(/^https?:\/\/[^/]+/, '')
  for (const [template, operations] of Object.entries<Record<string, { operationId: string }>>(documented)) {
    const pattern = new RegExp(`^${template.replaceAll(/\{(\w+)\}/g, '(?<$1>[^/]+)')}$`)
    const parameters = pattern.exec(path)
    const operation = operations[method.toLowerCase()]?.operationId
    if (parameters && operation)
      return { operation, ...(parameters.groups && { parameters: parameters.groups }), ...(body && { body }) }
  }
  throw new Error(`${method} ${path} is not an operation`)
}

type Judged = {
  told: string
  // biome-ignore lint/suspicious/noExplicitAny: as the API shows it; every answer is checked against openapi.json.
  impact: any
  places: readonly Place[]
  before: Map<string, boolean>
  after: Map<string, boolean>
  seen: Map<string, Set<string>>
  seenLater: Map<string, Set<string>>
}

/** Where a preview says that it does not know who comes, it may name none. Anywhere else it names exactly those affected. */
function judge({ told, impact, places, before, after, seen, seenLater }: Judged, counts: Counts): void {
  for (const { key, type } of places) {
    const shown = impact.places.find((each: { type: string; id: string | null }) => (each.id ?? each.type) === key)
    const about = `${told}: ${type} ${key}\n${JSON.stringify(impact)}`
    for (const [list, isLetIn] of [
      ['newly_refused', false],
      ['newly_allowed', true],
    ] as const) {
      const isFlipped = (ip: string) => before.get(`${key} ${ip}`) !== isLetIn && after.get(`${key} ${ip}`) === isLetIn
      const named = ((shown?.[list] as Shown | undefined)?.addresses ?? []).map(({ ip }) => ip)
      const due = [...(seen.get(key) ?? [])].filter(isFlipped)
      const missed = due.filter((ip) => !named.includes(ip))
      if (shown?.evidence !== 'none') assert.deepEqual(missed, [], `not named as ${list}: ${about}`)
      else counts.notKnown += missed.length
      const wrong = named.filter((ip) => !isFlipped(ip) || !seenLater.get(key)?.has(ip))
      assert.deepEqual(wrong, [], `wrongly named as ${list}: ${about}`)
      counts[isLetIn ? 'allowed' : 'refused'] += named.length
    }
  }
  for (const shown of impact.places) {
    // Where it does not know everything it says so, and why.
    assert.equal(shown.evidence === 'complete', shown.unknown_because === null)
    if (shown.becomes === 'created') assert.equal(shown.evidence, 'none')
    if (shown.evidence !== 'complete') counts.unknown++
  }
}

async function letInAt(places: readonly Place[]): Promise<Map<string, boolean>> {
  const asked = places.flatMap(({ key, type, isLetIn }) =>
    (type === 'api' || type === 'dashboard' ? apiIps : edgeIps).map(
      async (ip) => [`${key} ${ip}`, await isLetIn(ip)] as const,
    ),
  )
  return new Map(await Promise.all(asked))
}

async function placesOf({ admin, session, reach, edge }: InSession): Promise<Place[]> {
  const { routes } = (await admin('GET', `/edges/https/${edge}`)).body
  const { tcp_edges } = (await admin('GET', '/edges/tcp')).body
  return [
    ...[admin, session].map((call, index): Place => {
      const type = index ? 'dashboard' : 'api'
      return {
        key: type,
        type,
        isLetIn: async (ip) => (await call('GET', '/caller', undefined, from(ip))).status === 200,
      }
    }),
    ...routes.map(
      (route: Route): Place => ({
        ...{ key: route.id, type: 'route' },
        isLetIn: (ip) => reach.route(pathAt(route), ip),
      }),
    ),
    ...tcp_edges.map(({ id }: { id: string }): Place => ({ key: id, type: 'tcp_edge', isLetIn: reach.tcp })),
  ]
}

/** Who has been seen where, as it is stored. */
async function seenAt({ plane, admin }: World): Promise<Map<string, Set<string>>> {
  const accountId = toUuid(admin.accountId as `ac_${string}`)
  const rows = await many<{ id: Uuid; kind: string; ip: string }>(
    plane.db,
    sql`
    select e.id, e.kind, host(seen.ip) as ip from edges e join (
      select account_id, target_id, ip from address_outcomes where type = 'endpoints'
      union select account_id, edge_id, source_ip from edge_addresses) seen (account_id, target_id, ip)
      on seen.account_id = e.account_id and seen.target_id = e.id
    where e.account_id = ${accountId}`,
  )
  const seen = new Map<string, Set<string>>()
  const note = (key: string, ip: string) => seen.set(key, (seen.get(key) ?? new Set()).add(ip))
  const callers = await many<{ type: string; ip: string }>(
    plane.db,
    sql`select type, host(ip) as ip from seen_addresses where account_id = ${accountId}`,
  )
  for (const { type, ip } of callers) if (apiIps.includes(ip)) note(type, ip)
  for (const { id, kind, ip } of rows) note(toId(kind === 'tcp' ? 'edgtcp' : 'edghtsrt', id), ip)
  return seen
}

type Change = [method: string, path: string, body?: object]

async function randomChange(world: InSession): Promise<Change | undefined> {
  const { admin, edge, tcpHostport, backend } = world
  const list = async (path: string, field: string) => (await admin('GET', path)).body[field]
  const policies = (await list('/ip_policies', 'ip_policies')) as { id: string }[]
  const ids = () => {
    const some = someOf(policies).map(({ id }) => id)
    return some.length ? some : [oneOf(policies).id]
  }
  const rules = ((await list('/ip_policy_rules', 'ip_policy_rules')) as { id: string; cidr: string }[]).filter(
    ({ cidr }) => cidr !== own,
  )
  const restrictions = (await list('/ip_restrictions', 'ip_restrictions')) as { id: string }[]
  const { routes } = (await admin('GET', `/edges/https/${edge}`)).body as { routes: Route[] }
  const tcp = (await list('/edges/tcp', 'tcp_edges')) as { uri: string }[]
  const module = () => ({
    ip_policy_ids: ids(),
    enabled: randomBelow(4) > 0,
    mode: oneOf(['enforce', 'enforce', 'warn']),
  })
  const missing = paths.filter((path) => !routes.some(({ match }) => match === path))
  const route = oneOf(routes)
  const target = oneOf([...routes, ...tcp])
  const restriction = oneOf(restrictions)
  const action = oneOf(['allow', 'deny'])
  const replaced = [own, ...someOf(ranges)].map((cidr) => ({ cidr, action: cidr === own ? 'allow' : action }))
  const isRestrictive = {
    type: oneOf(['api', 'dashboard', 'endpoints']),
    enforced: randomBelow(3) > 0,
    ip_policy_ids: ids(),
  }
  const changes: (Change | undefined)[] = [
    ['POST', '/ip_policy_rules', { ip_policy_id: oneOf(policies).id, cidr: oneOf(ranges), action }],
    rules.length ? ['DELETE', `/ip_policy_rules/${oneOf(rules).id}`] : undefined,
    rules.length ? ['PATCH', `/ip_policy_rules/${oneOf(rules).id}`, { cidr: oneOf(ranges) }] : undefined,
    ['PUT', `/ip_policies/${oneOf(policies).id}/rules`, { rules: replaced }],
    restrictions.length < 3 ? ['POST', '/ip_restrictions', isRestrictive] : undefined,
    restriction && ['PATCH', `/ip_restrictions/${restriction.id}`, { ip_policy_ids: ids() }],
    restriction && ['PATCH', `/ip_restrictions/${restriction.id}`, { enforced: randomBelow(2) === 0 }],
    restriction && ['DELETE', `/ip_restrictions/${restriction.id}`],
    target && ['PUT', `${target.uri}/ip_restriction`, module()],
    target && ['PUT', `${target.uri}/ip_restriction`, module()],
    target && ['DELETE', `${target.uri}/ip_restriction`],
    missing.length
      ? [
          'POST',
          `/edges/https/${edge}/routes`,
          {
            ...{ match_type: 'path_prefix', match: oneOf(missing), backend: { backend_id: backend } },
            ...(randomBelow(2) && { ip_restriction: module() }),
          },
        ]
      : ['DELETE', oneOf(routes).uri],
    routes.length > 1 ? ['DELETE', oneOf(routes).uri] : undefined,
    route && missing.length ? ['PATCH', route.uri, { match: oneOf(missing) }] : undefined,
    route && ['PATCH', route.uri, { path_variants: oneOf(['restrict', 'ignore']), ip_restriction: module() }],
    route && ['PATCH', route.uri, { match_type: oneOf(['path_prefix', 'exact_path']) }],
    route && ['PATCH', route.uri, { description: oneOf(ranges) }],
    rules.length
      ? ['POST', `/ip_policies/${oneOf(policies).id}/remove_rules`, { rule_ids: [oneOf(rules).id] }]
      : undefined,
    tcp.length === 0
      ? ['POST', '/edges/tcp', { hostports: [tcpHostport], backend: { backend_id: backend } }]
      : randomBelow(3)
        ? undefined
        : ['DELETE', tcp[0]?.uri ?? ''],
  ]
  const change = oneOf(changes)
  if (!change) return undefined
  const [method, path, body] = change
  return /\/edges|\/ip_/.test(path)
    ? [method, `${path}?wait=applied&confirm=true`.replace(...confirmable(path)), body]
    : change
}

/** Only replacing rules can be asked to be confirmed, and only some changes concern nodes. */
const confirmable = (path: string): [string, string] => [/\/rules$/.test(path) ? '' : '&confirm=true', '']

/** As a build whose previews try another change than the one that is made: for the control, because what cannot fail shows nothing. */
export const previewingOpposites = (db: DbPool) =>
  db.query({
    text: `
      create function public.opposite() returns trigger language plpgsql as $$ begin
        new.action = case new.action when 'allow' then 'deny' else 'allow' end; return new; end $$;
      create trigger opposite before insert on ip_policy_rules for each row
        when (coalesce(current_setting('gatehouse.dry_run', true), '') <> '') execute function public.opposite()`,
  })
