// One truth about health: broken states side by side, as the API, the dashboard and the command line show them. No two of them
// may disagree, and nothing may look fine that is not.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import type { Page } from 'playwright-core'
import { run } from '../../src/db/pool.ts'
import { sql } from '../../src/db/sql.ts'
import type { UpstreamHealth } from '../../src/distribution/channels.ts'
import { type Id, toUuid } from '../../src/kernel/ids.ts'
import { cliFor } from '../cli/harness.ts'
import { make } from '../harness/fixtures.ts'
import { poll } from '../harness/poll.ts'
import { quickCertificate } from '../harness/quick_certificates.ts'
import { startFleet } from '../harness/reporting_nodes.ts'
import { goTo, openBrowser, openPage, signIn } from './browser.ts'

const fleet = await startFleet({ after })
const { origin, db, report } = fleet
const admin = await fleet.newAccount()
const cli = cliFor(fleet, admin)
const browser = await openBrowser({ after })

const pathOf = (uri: string) => new URL(uri).pathname
const check = { health_check: { type: 'tcp' } }
const backend = (name: string, fields: object = check) =>
  make(admin, '/backends/static', { description: name, address: 'app.internal:80', ...fields })

/** An HTTPS edge with one route to this backend. */
async function edgeTo(name: string, module: object | null | undefined) {
  const edge = await make(admin, '/edges/https', { description: name, hostports: [`${name}.example:443`] })
  if (module !== undefined)
    await make(admin, `/edges/https/${edge.id}/routes`, {
      match_type: 'path_prefix',
      match: '/',
      ...(module && { backend: module }),
    })
  return edge
}

const seen = (id: string, address: string, status: 'up' | 'down' | 'failing'): UpstreamHealth => ({
  ...{ backend: id, address, port: 80, status, since: '2026-01-15T12:00:00.000Z' },
  reason: status === 'up' ? null : 'connection refused',
})

const [fine, half, gone, failing, unchecked, unheard] = await Promise.all([
  backend('b-fine'),
  backend('b-half'),
  backend('b-gone'),
  backend('b-failing', {}),
  backend('b-unchecked', {}),
  backend('b-unheard'),
])
const group = await make(admin, '/backends/failover', { description: 'g-fallback', backends: [gone.id, fine.id] })
const to = ({ id }: { id: string }, enabled = true) => ({ backend_id: id, enabled })
const edges = {
  'e-fine': await edgeTo('e-fine', to(fine)),
  'e-half': await edgeTo('e-half', to(half)),
  'e-gone': await edgeTo('e-gone', to(gone)),
  'e-failing': await edgeTo('e-failing', to(failing)),
  'e-unchecked': await edgeTo('e-unchecked', to(unchecked)),
  'e-unheard': await edgeTo('e-unheard', to(unheard)),
  'e-fallback': await edgeTo('e-fallback', to(group)),
  'e-no-route': await edgeTo('e-no-route', undefined),
  'e-no-module': await edgeTo('e-no-module', null),
  'e-disabled': await edgeTo('e-disabled', to(fine, false)),
  'e-no-tls-all': await edgeTo('e-no-tls-all', to(fine)),
  'e-no-tls-one': await edgeTo('e-no-tls-one', to(fine)),
  'e-rejected': await edgeTo('e-rejected', to(fine)),
  'e-no-names': await make(admin, '/edges/https', { description: 'e-no-names' }),
}
const tcp = await make(admin, '/edges/tcp', {
  description: 't-port',
  hostports: ['t.example:20001'],
  backend: to(fine),
})
await make(admin, '/reserved_domains', { domain: 'd-pending.example' })
const [expired, expiring] = await Promise.all(
  [['c-old', 30] as const, ['c-soon', 3] as const].map(([description, days]) =>
    make(admin, '/tls_certificates', { description, ...quickCertificate(['c.example'], days) }),
  ),
)
await make(admin, '/webhook_destinations', {
  description: 'w-failing',
  url: 'https://example.com/hook',
  operations: ['x.*'],
})
await run(
  db,
  sql`update tls_certificates set not_after = now() - interval '1 minute' where id = ${toUuid(expired.id as Id<'cert'>)}`,
)
await run(
  db,
  sql`update tls_certificates set not_before = now() - interval '60 days' where id = ${toUuid(expiring.id as Id<'cert'>)}`,
)
await run(db, sql`update webhook_progress set failing_since = now() - interval '1 hour'`)

const refusal = (key: string, reason: string) => ({ key, generation: 1, reason, at: new Date().toISOString() })
const uncovered = (...names: string[]) => ({
  ...{ names: 1, waiting: 0, firstExpiry: null, missing: names.length },
  uncovered: { accounts: [{ account: admin.accountId, count: names.length, names }], isCut: false },
})
const health = [fine, half, gone].flatMap(({ id }) => [
  seen(id, '192.0.2.1', id === gone.id ? 'down' : 'up'),
  seen(id, '192.0.2.2', id === fine.id ? 'up' : 'down'),
])
const port = refusal(`tcp.${tcp.id}`, 'port 20001 is not served here')
const usual = {
  'edge-1': {
    health: [...health, seen(failing.id, '192.0.2.3', 'failing')],
    refusals: [refusal(`https.${edges['e-rejected'].id}`, 'too many names'), port],
    certificates: uncovered('e-no-tls-all.example', 'e-no-tls-one.example'),
  },
  'edge-2': { health, refusals: [port], certificates: uncovered('e-no-tls-all.example') },
}
const reportUsual = () => Promise.all((['edge-1', 'edge-2'] as const).map((node) => report(node, usual[node])))

type Kind = { path: string; list: string; field: string; page: string; part: string }
const https: Kind = { path: '/edges/https', list: 'https_edges', field: 'edges https', page: '/edges', part: 'edges' }
const kinds = {
  https,
  tcp: { ...https, path: '/edges/tcp', list: 'tcp_edges', field: 'edges tcp' },
  backend: {
    path: '/backends/static',
    list: 'backends',
    field: 'backends static',
    page: '/backends',
    part: 'backends',
  },
  group: {
    path: '/backends/failover',
    list: 'backends',
    field: 'backends failover',
    page: '/backends',
    part: 'backends',
  },
  domain: {
    path: '/reserved_domains',
    list: 'reserved_domains',
    field: 'reserved-domains',
    page: '/domains',
    part: 'domains',
  },
  certificate: {
    path: '/tls_certificates',
    list: 'tls_certificates',
    field: 'tls-certificates',
    page: '/certificates',
    part: 'TLS certificates',
  },
  webhook: {
    path: '/webhook_destinations',
    list: 'webhook_destinations',
    field: 'webhook-destinations',
    page: '/webhooks',
    part: 'webhooks',
  },
} satisfies Record<string, Kind>

/** What everything in the account is, and why. Everything that is not in here is up. */
const table: readonly [kind: keyof typeof kinds, name: string, state: string, code: string][] = [
  ['https', 'e-half', 'degraded', 'servers_down'],
  ['https', 'e-gone', 'down', 'servers_down'],
  ['https', 'e-failing', 'degraded', 'servers_failing'],
  ['https', 'e-unchecked', 'unknown', 'not_checked'],
  ['https', 'e-unheard', 'unknown', 'not_checked_yet'],
  ['https', 'e-fallback', 'degraded', 'on_fallback'],
  ['https', 'e-no-route', 'down', 'no_routes'],
  ['https', 'e-no-module', 'down', 'no_backend'],
  ['https', 'e-disabled', 'down', 'backend_disabled'],
  ['https', 'e-no-tls-all', 'down', 'certificate_missing'],
  ['https', 'e-no-tls-one', 'degraded', 'certificate_missing'],
  ['https', 'e-rejected', 'degraded', 'record_refused'],
  ['https', 'e-no-names', 'down', 'no_hostports'],
  ['tcp', 't-port', 'down', 'record_refused'],
  ['backend', 'b-half', 'degraded', 'servers_down'],
  ['backend', 'b-gone', 'down', 'servers_down'],
  ['backend', 'b-failing', 'degraded', 'servers_failing'],
  ['backend', 'b-unchecked', 'unknown', 'not_checked'],
  ['backend', 'b-unheard', 'unknown', 'not_checked_yet'],
  ['group', 'g-fallback', 'degraded', 'on_fallback'],
  ['domain', 'd-pending.example', 'down', 'domain_unverified'],
  ['certificate', 'c-old', 'down', 'certificate_expired'],
  ['certificate', 'c-soon', 'degraded', 'certificate_expiring'],
  ['webhook', 'w-failing', 'down', 'delivery_failing'],
]
const nameOf = ({ description, domain: name }: Record<string, string>) => description ?? name ?? ''
type Row = { id: string; uri: string; status: { state: string; code: string; reason: string } } & Record<string, string>

const listOf = async (kind: keyof typeof kinds): Promise<Row[]> =>
  (await admin('GET', kinds[kind].path)).body[kinds[kind].list]
const rows = async () => (await Promise.all((Object.keys(kinds) as (keyof typeof kinds)[]).map(listOf))).flat()
const shown = (all: readonly Row[]) =>
  Object.fromEntries(all.map((row) => [nameOf(row), `${row.status.state} ${row.status.code}`]))

const expected = Object.fromEntries([
  ...(await rows()).map((row) => [nameOf(row), 'up ok']),
  ...table.map(([, name, state, code]) => [name, `${state} ${code}`]),
])

test('lists, single reads and the command line agree about every broken state', async () => {
  await reportUsual()
  const found = await poll(rows, (now) => JSON.stringify(shown(now)) === JSON.stringify(expected)).catch(rows)
  assert.deepEqual(shown(found), expected)
  for (const row of found) {
    const { body } = await admin('GET', pathOf(row.uri))
    assert.deepEqual([nameOf(row), body.status], [nameOf(row), row.status])
    assert.match(row.status.reason, /^\S.{5,}\.$/, 'a sentence')
  }
  const [route] = (await admin('GET', `/edges/https/${edges['e-gone'].id}/routes`)).body.https_edge_routes
  assert.deepEqual([route.status.state, route.status.code], ['down', 'servers_down'])
  const { body: listed } = await admin('GET', pathOf(edges['e-gone'].uri))
  assert.deepEqual(listed.routes[0].status, route.status)

  const { parts } = JSON.parse((await cli(['status', '-o', 'json'])).stdout)
  type Part = { part: string; name?: string; status: string; message: string }
  for (const row of found.filter(({ status }) => status.state !== 'up')) {
    const part = (parts as Part[]).find(({ name }) => name === nameOf(row))
    assert.deepEqual([nameOf(row), part?.status, part?.message], [nameOf(row), row.status.state, row.status.reason])
  }
  const named = (parts as Part[]).filter(({ name, part }) => name !== undefined && part !== 'edge nodes')
  assert.equal(named.length, table.length, 'and nothing else')
  for (const kind of ['https', 'webhook', 'domain'] as const) {
    const text = await cli.ok([...kinds[kind].field.split(' '), 'list'])
    for (const row of await listOf(kind)) {
      const line = text.split('\n').find((each) => each.includes(row.id))
      assert.match(line ?? '', new RegExp(`(^|\\s)${row.status.state}(\\s|$)`), text)
    }
  }
})

const words: Record<string, RegExp> = {
  up: /\bUp\b/,
  degraded: /\bDegraded\b/,
  down: /\bDown\b/,
  unknown: /\bUnknown\b/,
}
const mark: Record<string, string> = { up: 'up', degraded: 'partial', down: 'down', unknown: 'unknown' }

async function markOf(page: Page, text: string, within: string): Promise<string | null> {
  const element = page.locator(within).filter({ hasText: text }).locator('.state').first()
  return element.getAttribute('class')
}

test('the dashboard says the same: overview, sidebar, lists, details and search', async () => {
  await reportUsual()
  const page = await openPage(browser, { viewport: { width: 1440, height: 900 } })
  await signIn(page, origin, admin.token)
  const total = Object.keys(edges).length + 1
  const flowing = table.filter(
    ([kind, , state]) => ['https', 'tcp'].includes(kind) && !['degraded'].includes(state),
  ).length
  await page.getByText(`Traffic is flowing on ${total - flowing} of ${total} edges.`).waitFor()
  for (const [title, meaning] of [
    ['Edges', '7 edges are down'],
    ['Backends', '1 backend is down'],
    ['Domains', '1 domain is down'],
    ['Certificates', '1 certificate is down'],
    ['Webhooks', '1 webhook is down'],
    ['Nodes', '2 nodes are degraded'],
  ])
    await page.getByTitle(`${title}: ${meaning}`).waitFor()
  for (const [kind, name, state] of table) {
    if (!['https', 'tcp', 'backend', 'group'].includes(kind)) continue
    if (!page.url().endsWith(`/dashboard${kinds[kind].page}`)) await goTo(page, kinds[kind].page)
    const row = page.getByRole('row').filter({ hasText: name }).first()
    await row.waitFor()
    await row
      .getByText(words[state] ?? '')
      .first()
      .waitFor()
    assert.equal(await markOf(page, name, 'tr'), `state ${mark[state]}`, `${name} in its list`)
  }
  for (const [kind, name, state] of table.filter(([each]) => ['https', 'tcp'].includes(each))) {
    await goTo(page, `/edges/${kind === 'tcp' ? tcp.id : edges[name as keyof typeof edges].id}`)
    await page
      .locator('.page-head')
      .filter({ hasText: name })
      .getByText(words[state] ?? '')
      .waitFor()
  }
  for (const [kind, name, state] of table) {
    await page.keyboard.press('Control+k')
    await page.getByRole('dialog', { name: 'Search' }).waitFor()
    await page.keyboard.insertText(name)
    const item = page.getByRole('menuitem').filter({ hasText: name }).first()
    await item.waitFor()
    assert.equal(
      await item.locator('.state').first().getAttribute('class'),
      `state ${mark[state]}`,
      `${kind} ${name} in search`,
    )
    await page.keyboard.press('Escape')
    await page.getByRole('dialog', { name: 'Search' }).waitFor({ state: 'detached' })
  }
  assert.deepEqual(page.faults, [])
})

const edgeStatus = async (): Promise<Row['status']> => (await admin('GET', pathOf(edges['e-fine'].uri))).body.status
const nodeStatuses = async (): Promise<string[]> =>
  (await admin('GET', '/edge_nodes')).body.edge_nodes.map(({ status }: Row) => `${status.state} ${status.code}`)

/** What one node says, what that makes of it, and of an edge that is fine otherwise. */
const nodeFaults: readonly [name: string, fields: object | undefined, node: string, edge: string][] = [
  ['behind', { applied: 0 }, 'degraded node_behind', 'degraded node_behind'],
  ['storage fault', { storageFault: 'cannot write: ENOSPC' }, 'degraded storage_fault', 'degraded storage_fault'],
  [
    'records rejected, and the report has no room for them',
    { refused: { records: 9, lowest: 3, generations: [3, 4, 5] }, refusals: [] },
    'degraded record_refused',
    'degraded record_refused',
  ],
  [
    'an old version',
    { refused: undefined, certificates: undefined },
    'unknown record_refused',
    'unknown certificate_not_reported',
  ],
  ['away', undefined, 'down node_away', 'degraded node_away'],
]

test('what is wrong with a node shows on the node, on its edges and in the command line', async () => {
  // Ten seconds after a change, every node should have it.
  await run(db, sql`update outbox set created_at = created_at - interval '1 minute'`)
  for (const [name, fields, node, edge] of nodeFaults) {
    await report('edge-1', { health, certificates: uncovered() })
    await report('edge-2', fields && { health, certificates: uncovered(), ...fields })
    const found = await poll(
      async () => [(await nodeStatuses())[1], await edgeStatus()] as const,
      ([seen, { state, code }]) => seen === node && `${state} ${code}` === edge,
      { withinSeconds: 20 },
    ).catch(async () => [(await nodeStatuses())[1], await edgeStatus()] as const)
    assert.deepEqual([name, found[0], `${found[1].state} ${found[1].code}`], [name, node, edge])
    if (edge.startsWith('degraded')) assert.match(found[1].reason, /edge-2/)
    const { parts } = JSON.parse((await cli(['status', '-o', 'json'])).stdout)
    const part = parts.find((each: { name?: string }) => each.name === 'edge-2')
    assert.equal(part?.status, node.split(' ')[0], name)
  }
})

test("another account's page has nothing of it, and a node's report about one account is not shown to another", async () => {
  await reportUsual()
  const other = await fleet.newAccount()
  const edge = await make(other, '/edges/tcp', { hostports: ['o.example:20002'] })
  const text = JSON.stringify([(await other('GET', pathOf(edge.uri))).body, (await other('GET', '/edges/https')).body])
  for (const secret of ['e-no-tls', 'too many names', 'port 20001', admin.accountId])
    assert.ok(!text.includes(secret), secret)
})

test('a status that changes is no change of the resource: If-Match still fits, and If-None-Match notices', async () => {
  await reportUsual()
  const uri = pathOf(edges['e-fine'].uri)
  await poll(edgeStatus, ({ state }) => state === 'up')
  const before = await admin('GET', uri)
  const tag = before.headers.get('etag') ?? ''
  assert.equal((await admin('GET', uri, undefined, { headers: { 'if-none-match': tag } })).status, 304)
  await report('edge-1', { ...usual['edge-1'], storageFault: 'cannot write' })
  await poll(edgeStatus, ({ state }) => state === 'degraded')
  const after = await admin('GET', uri, undefined, { headers: { 'if-none-match': tag } })
  assert.deepEqual([after.status, after.body.status.code], [200, 'storage_fault'])
  assert.equal((await admin('PATCH', uri, { metadata: 'x' }, { headers: { 'if-match': tag } })).status, 200)
  assert.equal((await admin('PATCH', uri, { metadata: 'y' }, { headers: { 'if-match': tag } })).status, 412)
  // An edited copy of what was read goes back with its status, and those of its routes.
  const copy = await admin('PATCH', uri, { ...(await admin('GET', uri)).body, metadata: 'z' })
  assert.equal(copy.status, 200, copy.text)
  const { audit_events } = (await admin('GET', `/audit_events?resource_id=${edges['e-fine'].id}`)).body
  for (const { after: fields } of audit_events)
    assert.ok(!JSON.stringify(fields).includes('"state"'), 'no status in the audit')
})

test('without a live node, without NATS and without the database nothing is up', async () => {
  await reportUsual()
  for (const node of ['edge-1', 'edge-2'] as const) await report(node, undefined)
  const silent = await poll(edgeStatus, ({ code }) => code === 'no_live_node')
  assert.equal(silent.state, 'unknown')
  assert.deepEqual(await nodeStatuses(), ['down node_away', 'down node_away'])
  const stillDown = shown(await rows())
  assert.deepEqual([stillDown['e-no-route'], stillDown['e-gone']], ['down no_routes', 'unknown no_live_node'])

  await fleet.nats.stop()
  const blind = await poll(edgeStatus, ({ code }) => code === 'control_plane_blind')
  assert.equal(blind.state, 'unknown')
  assert.deepEqual(await nodeStatuses(), ['unknown control_plane_blind', 'unknown control_plane_blind'])
  const up = (await rows()).filter(({ status }) => status.state === 'up').map(nameOf)
  assert.deepEqual(up, [])

  const page = await openPage(browser)
  await signIn(page, origin, admin.token)
  await page.getByText(/^Traffic is flowing on 0 of /).waitFor()
  // As with a database that does not answer: what cannot be read is unknown.
  // One by one, as behind a proxy that refuses what is read together.
  await page.route(/\/dashboard\/reads/, (route) => route.abort())
  await page.route('**/edges/https*', (route) =>
    route.fulfill({ status: 503, json: { error_code: 'ERR_UNAVAILABLE' } }),
  )
  await page.reload()
  await page.getByTitle(/^Edges: (The state of edges could not be read|\d+ edges? (is|are) down)$/).waitFor()
  await page.getByText('Whether traffic is flowing could not be read.').waitFor()
})
