// Broken states side by side, as people see them: overview, menu, list, page, search and command line. No two of them may
// disagree, and nothing may look fine that is not. health_states.test.ts has what the API says.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { asAppRole } from '../../dev/app_role.ts'
import { run } from '../../src/db/pool.ts'
import { sql } from '../../src/db/sql.ts'
import { isExpected } from '../../src/kernel/expected_states.ts'
import { cliFor } from '../cli/harness.ts'
import { newDatabase } from '../harness/control_plane.ts'
import { make } from '../harness/fixtures.ts'
import { poll } from '../harness/poll.ts'
import { newUser } from '../harness/principals.ts'
import { startFleet } from '../harness/reporting_nodes.ts'
import { startTcpProxy } from '../harness/tcp_proxy.ts'
import { furnishBrokenStates, kinds, nameOf, table } from './broken_states.ts'
import { goTo, openBrowser, openPage, signIn, type Watched } from './browser.ts'
import { asTable, detailSays, listSays, overviewSays, searchSays, sidebarSays } from './surfaces.ts'

const databaseUrl = await newDatabase()
const toDatabase = await startTcpProxy({ after }, asAppRole(databaseUrl))
const fleet = await startFleet({ after }, { GATEHOUSE_DATABASE_URL: toDatabase.url }, databaseUrl)
const { origin, db, report } = fleet
const browser = await openBrowser({ after })
const size = { viewport: { width: 1440, height: 900 } }

type Part = { part: string; name?: string; status: string }
const cliSays = async (account: { token: string }): Promise<Part[]> =>
  JSON.parse((await cliFor(fleet, account)(['status', '-o', 'json'])).stdout).parts

/** An edge whose cause is in a backend is not listed beside it. */
const causes = ['servers_down', 'servers_failing', 'on_fallback', 'not_checked_yet']

/** The mark of a page: how many are in the worst state that something on it has. What was disabled on purpose is left out. */
function markOf(title: string, one: string, pages: readonly string[]): string {
  const states = table
    .filter(([kind, , , code]) => pages.includes(kinds[kind].page) && code !== 'disabled')
    .map(([, , state]) => state)
  const worst = ['down', 'degraded', 'unknown'].find((state) => states.includes(state))
  const count = states.filter((state) => state === worst).length
  return `${title}: ${count} ${count === 1 ? `${one} is` : `${one}s are`} ${worst}`
}

test('overview, menu, list, page, search and command line say the same of every broken state', async (t) => {
  const admin = await fleet.newAccount()
  const { reportUsual } = await furnishBrokenStates(fleet, admin)
  await reportUsual()
  const lists = await Promise.all(
    Object.values(kinds).map(async ({ path, list }) => (await admin('GET', path)).body[list]),
  )
  const idOf = new Map<string, string>(lists.flat().map((row) => [nameOf(row), row.id]))
  const page = await openPage(browser, size)
  await signIn(page, origin, admin.token)
  const { summary, items } = await overviewSays(page)
  const edges = lists.flatMap((rows) => rows.filter(({ id }: { id: string }) => id.startsWith('edg')))
  const flowing =
    edges.length - table.filter(([kind, , state]) => 'https tcp'.includes(kind) && state !== 'degraded').length
  const unclear = table.filter(([kind, , state]) => 'https tcp'.includes(kind) && state === 'unknown').length
  assert.match(
    summary,
    RegExp(`^Traffic is flowing on ${flowing} of ${edges.length} edges, and not known of ${unclear}\\.`),
  )
  for (const mark of [
    markOf('Edges', 'edge', ['/edges']),
    markOf('Backends', 'backend', ['/backends']),
    markOf('Domains', 'domain', ['/domains']),
    markOf('Certificates', 'certificate', ['/certificates']),
    markOf('Webhooks', 'webhook', ['/webhooks']),
    'Nodes: 2 nodes are degraded',
  ])
    assert.ok((await sidebarSays(page)).includes(mark), mark)

  const parts = await cliSays(admin)
  const said: string[][] = []
  const inLists = new Map<string, string>()
  for (const path of new Set(Object.values(kinds).map(({ page: path }) => path))) {
    await goTo(page, path)
    for (const [kind, name] of table) if (kinds[kind].page === path) inLists.set(name, await listSays(page, name))
  }
  for (const [kind, name, state, code] of table) {
    const own = items.find((title) =>
      RegExp(`^(Backend|Edge|Domain|Certificate|Webhook) ${RegExp.escape(name)} is `).test(title),
    )
    const cause =
      causes.includes(code) &&
      table.find(([of, , its, same]) => kinds[of].page === '/backends' && same === code && its === state)
    const overview =
      own?.split(' ').at(-1) ?? (isExpected({ code }) ? 'as meant' : cause ? `see ${cause[1]}` : 'nothing')
    said.push([
      ...[name, code, state, overview, inLists.get(name) ?? 'nothing'],
      await detailSays(page, `${kinds[kind].page}/${idOf.get(name)}`, name),
      await searchSays(page, name),
      parts.find((part) => part.name === name)?.status ?? 'nothing',
    ])
  }
  t.diagnostic(asTable(['thing', 'code', 'API', 'overview', 'list', 'page', 'search', 'command line'], said))
  for (const [name, , state = '', overview = '', ...others] of said) {
    assert.deepEqual([name, ...others], [name, state, state, state, state])
    assert.match(overview, RegExp(`^(${state}|as meant|see .*)$`), `${name} in the overview`)
  }
  for (const [name, , , overview = ''] of said)
    if (overview.startsWith('see '))
      assert.ok(
        items.some((title) => title.startsWith(`Backend ${overview.slice(4)}`)),
        `${name}: ${overview}`,
      )
  assert.deepEqual(page.faults, [])
})

const healthy = { certificates: { names: 1, waiting: 0, firstExpiry: null, missing: 0 } }

/** An account in which all is well as long as the nodes are. */
async function newFineAccount() {
  const admin = await fleet.newAccount()
  const backend = await make(admin, '/backends/static', {
    ...{ description: 'b-ok', address: 'app.internal:80' },
    health_check: { type: 'tcp' },
  })
  const to = { backend: { backend_id: backend.id } }
  const edge = await make(admin, '/edges/tcp', { description: 'e-ok', hostports: ['e-ok.example:20003'], ...to })
  // Ten seconds after a change, every node should have it.
  await run(db, sql`update outbox set created_at = created_at - interval '1 minute'`)
  const health = [
    {
      ...{ backend: backend.id, address: '192.0.2.1', port: 80, status: 'up' as const, reason: null },
      since: '2026-01-15T12:00:00.000Z',
    },
  ]
  const say = (node: 'edge-1' | 'edge-2', fields: object | undefined = {}) =>
    report(node, fields && { ...healthy, health, ...fields })
  const stateOf = async () => {
    const { body } = await admin('GET', `/edges/tcp/${edge.id}`)
    const nodes = (await admin('GET', '/edge_nodes')).body.edge_nodes ?? []
    const words = [...nodes, body].map(({ status }) => `${status?.state} ${status?.code}`)
    return words.join(', ')
  }
  return { admin, edge, say, stateOf }
}
type Fine = Awaited<ReturnType<typeof newFineAccount>>

/** What every place says about the edge and about the second node. */
async function placesSay(page: Watched, { admin, edge }: Fine) {
  const { summary, items } = await overviewSays(page)
  const sidebar = await sidebarSays(page)
  await goTo(page, '/edges')
  const edgeList = await listSays(page, 'e-ok')
  const edgePage = await detailSays(page, `/edges/${edge.id}`, 'e-ok')
  const edgeSearch = await searchSays(page, 'e-ok')
  await goTo(page, '/nodes')
  const nodeList = await listSays(page, 'edge-2')
  const nodePage = await detailSays(page, '/nodes/edge-2', 'edge-2')
  const nodeSearch = await searchSays(page, 'edge-2')
  const parts = await cliSays(admin)
  const inCli = (wanted: string) => parts.find(({ name }) => name === wanted)?.status ?? 'up'
  return {
    edge: [edgeList, edgePage, edgeSearch, inCli('e-ok')],
    node: [nodeList, nodePage, nodeSearch, inCli('edge-2')],
    ...{ summary, items, sidebar },
  }
}

type Says = { edge: string; node: string; flowing: RegExp; item: RegExp; marks: readonly RegExp[] }
const all = /^Traffic is flowing on your edge\./
const unclear = /^Whether traffic is flowing on your edge is not known\./
const twoMarks = [/^Edges: 1 edge is degraded$/, /^Nodes: 1 node is degraded$/]

const fleetStates: readonly (Says & {
  name: string
  one?: object | undefined
  two: object | undefined
  state: string
})[] = [
  {
    ...{ name: 'all is well', two: {}, state: 'up ok, up ok, up ok' },
    ...{ edge: 'up', node: 'up', flowing: all, item: /^$/, marks: [] },
  },
  {
    ...{ name: 'node behind', two: { applied: 0 }, state: 'up ok, degraded node_behind, degraded node_behind' },
    ...{ edge: 'degraded', node: 'degraded', flowing: all, item: /^Node edge-2 is degraded$/, marks: twoMarks },
  },
  {
    ...{ name: 'disk of a node full', two: { storageFault: 'cannot write: ENOSPC' } },
    state: 'up ok, degraded storage_fault, degraded storage_fault',
    ...{ edge: 'degraded', node: 'degraded', flowing: all, item: /^Node edge-2 is degraded$/, marks: twoMarks },
  },
  {
    ...{ name: 'node away', two: undefined, state: 'up ok, down node_away, degraded node_away' },
    ...{ edge: 'degraded', node: 'down', flowing: all, item: /^Node edge-2 is down$/ },
    marks: [/^Edges: 1 edge is degraded$/, /^Nodes: 1 node is down$/],
  },
  {
    ...{ name: 'every node away', one: undefined, two: undefined },
    state: 'down node_away, down node_away, unknown no_live_node',
    ...{ edge: 'unknown', node: 'down', flowing: unclear, item: /^Node edge-2 is down$/ },
    marks: [/^Edges: 1 edge is unknown$/, /^Nodes: 2 nodes are down$/],
  },
]

function assertSays(name: string, found: Awaited<ReturnType<typeof placesSay>>, wanted: Says): string[] {
  const { edge, node, flowing, item, marks } = wanted
  assert.deepEqual([name, found.edge, found.node], [name, Array(4).fill(edge), Array(4).fill(node)])
  assert.match(found.summary, flowing, name)
  const isFine = edge === 'up'
  assert.equal(/Nothing needs your attention/.test(found.summary), isFine, `${name}: ${found.summary}`)
  if (!isFine)
    assert.ok(
      found.items.some((title) => item.test(title)),
      `${name}: ${found.items}`,
    )
  for (const mark of marks)
    assert.ok(
      found.sidebar.some((title) => mark.test(title)),
      `${name}: ${found.sidebar}`,
    )
  if (isFine) assert.deepEqual(found.sidebar, [])
  return [name, found.summary, found.items.join('; '), edge, node, found.sidebar.join('; ')]
}
const head = ['state', 'overview', 'needs attention', 'edge', 'node', 'menu']

test('what is wrong with nodes, NATS or the database shows everywhere, even to those who may not see nodes', async (t) => {
  const fine = await newFineAccount()
  const page = await openPage(browser, size)
  await signIn(page, origin, fine.admin.token)
  const viewer = await newUser(fleet, fine.admin, 'viewer')
  const theirs = await openPage(browser, size)
  await signIn(theirs, origin, viewer.token)
  const said: string[][] = []
  for (const { name, two, state, ...wanted } of fleetStates) {
    await fine.say('edge-1', 'one' in wanted ? undefined : {})
    if (two === undefined) await report('edge-2', undefined)
    else await fine.say('edge-2', two)
    if ('one' in wanted) await report('edge-1', undefined)
    await poll(fine.stateOf, (found) => found === state, { withinSeconds: 30 }).catch(async () =>
      assert.equal(await fine.stateOf(), state, name),
    )
    await page.goto(`${origin}/dashboard/`)
    said.push(assertSays(name, await placesSay(page, fine), wanted))
    // Causes that a viewer may not see must not hide what they cause.
    await theirs.goto(`${origin}/dashboard/`)
    const { summary, items } = await overviewSays(theirs)
    assert.equal(
      items.some((title) => RegExp(`^(Backend b|Edge e)-ok is ${wanted.edge}$`).test(title)),
      wanted.edge !== 'up',
      `${name}: ${summary} ${items}`,
    )
  }

  for (const node of ['edge-1', 'edge-2'] as const) await fine.say(node)
  await poll(fine.stateOf, (found) => found === 'up ok, up ok, up ok')
  await page.goto(`${origin}/dashboard/`)
  await page.getByText(all).waitFor()
  await goTo(page, '/edges')
  await page.getByText('Traffic is flowing on all of them.').waitFor()
  await goTo(page, '/')
  for (const path of [`/edges/${fine.edge.id}`, '/nodes/edge-2', '/']) await goTo(page, path)
  await toDatabase.cut()
  // The page stays open: what it read before must not look as if it were so now.
  await page.getByText('Whether traffic is flowing could not be read.').waitFor({ timeout: 90_000 })
  await goTo(page, `/edges/${fine.edge.id}`)
  await page.getByRole('alert').first().waitFor()
  // Until an answer fails, a page shows what it read a moment ago.
  const found = await poll(
    async () => {
      await goTo(page, '/')
      return placesSay(page, fine)
    },
    ({ edge, node }) => [...edge.slice(0, 3), ...node.slice(0, 3)].every((state) => state === 'unknown'),
  )
  assert.ok(
    found.items.some((title) => /could not be read$/.test(title)),
    `${found.items}`,
  )
  assert.equal(await page.locator('.page .state.up, .side .state.up, .node-bars .current').count(), 0)
  await page.locator('.live-nodes').getByText('No news from nodes').waitFor()
  const { code } = await cliFor(fleet, fine.admin)(['status'])
  assert.notEqual(code, 0)
  said.push(['database away', found.summary, found.items.join('; '), 'unknown', 'unknown', found.sidebar.join('; ')])
  await toDatabase.heal()
  await poll(fine.stateOf, (state) => state === 'up ok, up ok, up ok')

  await fleet.nats.stop()
  await poll(fine.stateOf, (state) => /^(unknown control_plane_blind(, |$)){3}/.test(state), { withinSeconds: 60 })
  await page.goto(`${origin}/dashboard/`)
  said.push(
    assertSays('NATS away', await placesSay(page, fine), {
      ...{ edge: 'unknown', node: 'unknown', flowing: unclear, item: /^2 nodes are unknown$/ },
      marks: [/^Edges: 1 edge is unknown$/, /^Nodes: 2 nodes are unknown$/],
    }),
  )
  await page.locator('.live-nodes').getByText('No news from nodes').waitFor()
  t.diagnostic(asTable(head, said))
  assert.deepEqual([...page.faults, ...theirs.faults], [])
})
