// `npm run drill -- previews <changes>`: random changes of policies, restrictions, modules, routes and edges, alone and in change sets, with traffic
// through a real edge node. Each is previewed and then made: the addresses that the preview named have to be exactly those that are newly refused, or
// let in, except where it said that it does not know. In test/previews, a build whose previews try another change fails.
import { drill } from '../harness/drill.ts'
import { previewAtEdge } from '../previews/upstream.ts'

const changes = Number(process.argv[2] ?? 1_000)

await drill(async (scope) => {
  const began = Date.now()
  const counts = await previewAtEdge(scope, changes)
  const seconds = ((Date.now() - began) / 1_000).toFixed(0)
  console.log(
    `${counts.changes} changes: ${counts.refused} newly refused and ${counts.allowed} newly allowed, all named and no others; ${counts.unknown} places said to be unknown, with ${counts.notKnown} newly refused or allowed there; ${counts.rejected} changes refused, ${seconds} s`,
  )
  return counts.refused > 0 && counts.allowed > 0
})
