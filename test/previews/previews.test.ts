import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { writeOutcomes } from '../../src/access/evidence/address_outcomes.ts'
import { toUuid } from '../../src/kernel/ids.ts'
import { type ControlPlane, startControlPlane } from '../harness/control_plane.ts'
import { freshHost, newBackend, newHttpsEdge } from '../harness/fixtures.ts'
import { behindProxy } from '../harness/ip.ts'
import { sharedControlPlane } from '../harness/shared_control_plane.ts'
import { printed, sized } from '../harness/thorough.ts'
import { edgeIps, pathAt, previewAtRandom, previewingOpposites, type Reach, type Route } from './random.ts'

const shared = await sharedControlPlane({ after })
const changes = sized(25, 600)

async function previewed(plane: Pick<ControlPlane, 'db' | 'newAccount'>, tcpPort: number, count: number) {
  const admin = await plane.newAccount()
  const edge = await newHttpsEdge(admin, { hostports: [`${freshHost()}:443`] })
  const backend = await newBackend(admin)
  const routes = async (): Promise<Route[]> => (await admin('GET', edge.uri)).body.routes
  const tcp = async () => (await admin('GET', '/edges/tcp')).body.tcp_edges[0]
  const isAllowed = async (target: object, ip: string) =>
    (await admin('POST', '/ip_checks', { ip, ...target })).body.allowed === true
  // Without nodes: decided by /ip_checks, at the route with the longest match.
  const reach: Reach = {
    async route(path, ip) {
      const serving = (await routes())
        .filter(
          ({ match_type, match }) =>
            path === match || (match_type === 'path_prefix' && (match === '/' || path.startsWith(`${match}/`))),
        )
        .sort((a, b) => b.match.length - a.match.length || (a.match_type === 'exact_path' ? -1 : 1))[0]
      return serving !== undefined && isAllowed({ route_id: serving.id }, ip)
    },
    async tcp(ip) {
      const it = await tcp()
      return it !== undefined && isAllowed({ edge_id: it.id }, ip)
    },
    async see() {
      const it = await tcp()
      const letIn = async (id: `edg${string}`, isLetIn: (ip: string) => Promise<boolean>) => {
        const seen = await Promise.all(edgeIps.map(async (ip) => ((await isLetIn(ip)) ? [ip] : [])))
        const targetId = toUuid(id as `edgtcp_${string}`)
        const outcomes = seen.flat().map((ip) => ({ targetId, ip, outcome: 'allowed' as const, at: Date.now() }))
        await writeOutcomes(plane.db, outcomes)
      }
      for (const route of await routes())
        await letIn(route.id as `edghtsrt_${string}`, (ip) => reach.route(pathAt(route), ip))
      if (it) await letIn(it.id, reach.tcp)
    },
  }
  const tcpHostport = `tcp.example:${tcpPort}`
  return previewAtRandom({ plane, admin, reach, edge: edge.id, tcpHostport, backend: backend.id }, count)
}

test(`for ${printed(changes)} random changes, the preview names exactly those who are refused or let in after it`, async () => {
  let counts = await previewed(shared, await shared.freshTcpPort(), changes)
  // By chance, a few changes may refuse no one and let no one in.
  for (let more = 0; more < 5 && counts.refused + counts.allowed === 0; more++)
    counts = await previewed(shared, await shared.freshTcpPort(), changes)
  console.log(counts)
  assert.ok(counts.refused + counts.allowed > 0)
})

test('a preview that shows the opposite of a rule is noticed', async () => {
  const plane = await startControlPlane({ after }, { env: behindProxy, prepare: previewingOpposites })
  await assert.rejects(previewed(plane, 20_001, 100), /named as newly_/)
})
