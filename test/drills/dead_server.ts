// `npm run drill -- dead-server <kills> <requests a second>`: two checked servers under 500 requests/s, one killed with -9,
// ten times: no GET fails and no POST is executed twice.
import { killServers } from '../backends/dead_server.ts'
import { startGroup, summary } from '../backends/group.ts'
import { drill } from '../harness/drill.ts'
import { describeFailures, failed } from '../harness/open_loop.ts'
import { quantiles } from '../harness/quantiles.ts'

const kills = Number(process.argv[2] ?? 10)
const perSecond = Number(process.argv[3] ?? 500)

await drill(async (scope) => {
  const group = await startGroup(scope, { servers: 2 })
  const { observed, executions, twice, backAfterMs } = await killServers(scope, group, {
    ...{ kills, perSecond, downMs: 4_000 },
  })
  console.log(`${kills} kills at ${perSecond} requests/s: ${summary(observed)}; ${quantiles(observed.latencies)}`)
  console.log(`failures: ${describeFailures(observed)}`)
  console.log(
    `executed at the servers: ${executions.size} requests; twice: ${twice.GET.length} GET, ${twice.POST.length} POST`,
  )
  console.log(`a server that is back gets requests again after ${quantiles(backAfterMs)}`)
  return failed(observed, 'GET') === 0 && twice.POST.length === 0
})
