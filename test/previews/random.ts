// Random changes, each previewed and then made. The addresses that the preview names have to be exactly those of the seen ones that are refused, or let in, after it
// and was not before. What decides is asked of what decides about requests, not of what previews are made with.
import assert from 'node:assert/strict'
import { many } from '../../src/db/pool.ts'
import { sql } from '../../src/db/sql.ts'
import { toId, toUuid, type Uuid } from '../../src/kernel/ids.ts'
import type { Account, ControlPlane } from '../harness/control_plane.ts'
import { from } from '../harness/ip.ts'
import { randomBelow } from '../harness/random.ts'

type Plane = Pick<ControlPlane, 'db'>
/** Whether a request gets through. `see` lets traffic flow, so that there is something to be seen. */
export type Reach = {
  route: (path: string, ip: string) => Promise<boolean>
  tcp: (ip: string) => Promise<boolean>
  see: (world: World) => Promise<void>
}
export type World = { plane: Plane; admin: Account; reach: Reach; edge: string; tcpHostport: string; backend: string }
type Place = { key: string; type: string; isLetIn: (ip: string) => Promise<boolean> }
type Shown = { addresses: { ip: string }[]; total: number }
type Counts = { changes: number; refused: number; allowed: number; unknown: number; rejected: number }

export const edgeIps = [2, 3, 4, 6].map((last) => `127.0.0.${last}`)
const apiIps = [2, 3, 4].map((last) => `192.0.2.${last}`)
const paths = ['/', '/a', '/a/b']
const own = '127.0.0.1/32'
const ranges = ['2/32', '2/31', '4/30', '6/32'].flatMap((end) => [`127.0.0.${end}`, `192.0.2.${end}`])

const oneOf = <Item>(items: readonly Item[]): Item => items[randomBelow(items.length)] as Item
const someOf = <Item>(items: readonly Item[]): Item[] => items.filter(() => randomBelow(2) === 0)

export async function previewAtRandom(world: World, changes: number): Promise<Counts> {
  const counts: Counts = { changes: 0, refused: 0, allowed: 0, unknown: 0, rejected: 0 }
  for (let count = 0; count < 3; count++) await policy(world)
  for (const ip of apiIps) assert.equal((await world.admin('GET', '/caller', undefined, from(ip))).status, 200)
  while (counts.changes < changes) await previewOne(world, counts)
  return counts
}

async function policy({ admin }: World) {
  const { body } = await admin('POST', '/ip_policies', {})
  const rules = [own, ...ranges].map((cidr) => ({ cidr, action: 'allow' }))
  assert.equal((await admin('PUT', `/ip_policies/${body.id}/rules`, { rules })).status, 200)
}

async function previewOne(world: World, counts: Counts): Promise<void> {
  const { admin, reach } = world
  await reach.see(world)
  const change = await randomChange(world)
  if (!change) return
  const [method, path, body] = change
  const places = await placesOf(world)
  const seen = await seenAt(world)
  const before = await letInAt(places)
  const separator = path.includes('?') ? '&' : '?'
  const preview = await admin(method, `${path}${separator}dry_run=true`, body)
  // Nodes report at any time, so the preview may know of some more.
  const seenLater = await seenAt(world)
  const made = await admin(method, path, body)
  if (preview.status !== 200 || made.status >= 300) {
    assert.deepEqual([preview.status, preview.body.error_code], [made.status, made.body.error_code], made.text)
    counts.rejected++
    return
  }
  counts.changes++
  const after = await letInAt(places)
  const { impact } = preview.body
  for (const { key, type } of places) {
    const shown = impact.places.find((each: { type: string; id: string | null }) => (each.id ?? each.type) === key)
    const told = `${method} ${path} ${JSON.stringify(body)}: ${type} ${key}\n${JSON.stringify(impact)}`
    for (const [list, isLetIn] of [
      ['newly_refused', false],
      ['newly_allowed', true],
    ] as const) {
      const isFlipped = (ip: string) => before.get(`${key} ${ip}`) !== isLetIn && after.get(`${key} ${ip}`) === isLetIn
      const named = ((shown?.[list] as Shown | undefined)?.addresses ?? []).map(({ ip }) => ip)
      const due = [...(seen.get(key) ?? [])].filter(isFlipped)
      assert.deepEqual(
        due.filter((ip) => !named.includes(ip)),
        [],
        `not named as ${list}: ${told}`,
      )
      const wrong = named.filter((ip) => !isFlipped(ip) || !seenLater.get(key)?.has(ip))
      assert.deepEqual(wrong, [], `wrongly named as ${list}: ${told}`)
      counts[isLetIn ? 'allowed' : 'refused'] += due.length
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
    (type === 'api' ? apiIps : edgeIps).map(async (ip) => [`${key} ${ip}`, await isLetIn(ip)] as const),
  )
  return new Map(await Promise.all(asked))
}

async function placesOf({ admin, reach, edge }: World): Promise<Place[]> {
  const { routes } = (await admin('GET', `/edges/https/${edge}`)).body
  const { tcp_edges } = (await admin('GET', '/edges/tcp')).body
  return [
    {
      ...{ key: 'api', type: 'api' },
      isLetIn: async (ip) => (await admin('GET', '/caller', undefined, from(ip))).status === 200,
    },
    ...routes.map(
      ({ id, match }: { id: string; match: string }): Place => ({
        ...{ key: id, type: 'route' },
        isLetIn: (ip) => reach.route(match, ip),
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
  const seen = new Map([['api', new Set(apiIps)]])
  for (const { id, kind, ip } of rows) {
    const key = toId(kind === 'tcp' ? 'edgtcp' : 'edghtsrt', id)
    seen.set(key, (seen.get(key) ?? new Set()).add(ip))
  }
  return seen
}

type Change = [method: string, path: string, body?: object]

async function randomChange(world: World): Promise<Change | undefined> {
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
  const { routes } = (await admin('GET', `/edges/https/${edge}`)).body as { routes: { uri: string; match: string }[] }
  const tcp = (await list('/edges/tcp', 'tcp_edges')) as { uri: string }[]
  const module = () => ({
    ip_policy_ids: ids(),
    enabled: randomBelow(4) > 0,
    mode: oneOf(['enforce', 'enforce', 'warn']),
  })
  const missing = paths.filter((path) => !routes.some(({ match }) => match === path))
  const target = oneOf([...routes, ...tcp])
  const restriction = oneOf(restrictions)
  const action = oneOf(['allow', 'deny'])
  const replaced = [own, ...someOf(ranges)].map((cidr) => ({ cidr, action: cidr === own ? 'allow' : action }))
  const isRestrictive = { type: oneOf(['api', 'endpoints']), enforced: randomBelow(3) > 0, ip_policy_ids: ids() }
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
