import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { exits } from '../../src/cli/exits.ts'
import { freshHost, make } from '../harness/fixtures.ts'
import { sharedControlPlane } from '../harness/shared_control_plane.ts'
import { cliFor } from './harness.ts'

const plane = await sharedControlPlane({ after })
const [mine, other] = [await plane.newAccount(), await plane.newAccount()]
const cli = cliFor(plane, mine)

async function edgeWith(as: typeof mine, matches: readonly string[]) {
  const host = freshHost()
  const edge = await make(as, '/edges/https', { hostports: [`${host}:443`] })
  const routes = await Promise.all(
    matches.map((match) => make(as, `/edges/https/${edge.id}/routes`, { match_type: 'path_prefix', match })),
  )
  return { host, id: edge.id, ids: routes.map(({ id }) => id) }
}

test('routes are listed with their edges: of all, of one, and of no other account', async () => {
  assert.match((await cli(['edges', 'https', 'routes', 'list'])).stderr, /No results/)
  const edges = [await edgeWith(mine, ['/a', '/b']), await edgeWith(mine, ['/c'])]
  const foreign = await edgeWith(other, ['/theirs'])
  const table = await cli.ok(['edges', 'https', 'routes', 'list'])
  for (const { host, ids } of edges) for (const text of [host, ...ids]) assert.ok(table.includes(text), text)
  assert.ok(!table.includes('/theirs'))
  const [first] = edges
  const shown = await cli.ok(['edges', 'https', 'routes', 'list', first?.id ?? '', '--output', 'ids'])
  assert.deepEqual(shown.trim().split('\n').sort(), first?.ids.toSorted())
  const { https_edge_routes: routes } = await cli.json(['edges', 'https', 'routes', 'list'])
  assert.equal(routes.length, 3)
  assert.equal((await cli(['edges', 'https', 'routes', 'list', foreign.id])).code, exits.notFound.code)
  assert.equal((await cli(['edges', 'https', 'routes', 'list', 'a', 'b'])).code, exits.usage.code)
  assert.match(await cli.ok(['edges', 'https', 'routes', 'list', '--help']), /EDGE_ID/)
  assert.match(
    (await cli(['edges', 'https', 'routes', 'lits'])).stderr,
    /Did you mean 'gatehouse edges https routes list'/,
  )
})
