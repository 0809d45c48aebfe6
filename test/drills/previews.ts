// `npm run drill -- previews <changes>`: random changes of policies, restrictions, modules, routes and edges, with traffic through a real edge
// node. Each is previewed and then made: the addresses that the preview named have to be exactly those that are newly refused, or let in.
import { drill } from '../harness/drill.ts'
import { startInstallation } from '../harness/edge.ts'
import { freshHost, newBackend, newHttpsEdge } from '../harness/fixtures.ts'
import { behindProxy } from '../harness/ip.ts'
import { previewAtRandom } from '../previews/random.ts'
import { startUpstream } from '../previews/upstream.ts'

const changes = Number(process.argv[2] ?? 1_000)

await drill(async (scope) => {
  const installation = await startInstallation(scope, { ...behindProxy, GATEHOUSE_REQUESTS_PER_MINUTE: '1000000' })
  const node = await installation.startEdge()
  const began = Date.now()
  const { admin } = installation
  const host = freshHost()
  const edge = await newHttpsEdge(admin, { hostports: [`${host}:443`] })
  const port = node.tcpPorts.first
  const { upstream, reach } = await startUpstream(scope, node, { host, port })
  const backend = await newBackend(admin, { address: upstream })
  const counts = await previewAtRandom(
    { plane: installation, admin, reach, edge: edge.id, tcpHostport: `tcp.example:${port}`, backend: backend.id },
    changes,
  )
  const seconds = ((Date.now() - began) / 1_000).toFixed(0)
  console.log(
    `${counts.changes} changes: ${counts.refused} newly refused and ${counts.allowed} newly allowed, all named and no others; ${counts.unknown} places said to be unknown; ${counts.rejected} changes refused, ${seconds} s`,
  )
  return counts.refused > 0 && counts.allowed > 0
})
