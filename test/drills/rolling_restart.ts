// `npm run drill -- rolling-restart <requests> <requests a second>`: three servers drained one by one through the API and
// restarted under 100,000 requests: none fails. Each gets weight 0, is restarted, and gets its weight back.
import { startGroup, summary } from '../backends/group.ts'
import { restartInTurn } from '../backends/rolling_restart.ts'
import { drill } from '../harness/drill.ts'
import { describeFailures, failed } from '../harness/open_loop.ts'
import { quantiles } from '../harness/quantiles.ts'

const requests = Number(process.argv[2] ?? 100_000)
const perSecond = Number(process.argv[3] ?? 500)

await drill(async (scope) => {
  const group = await startGroup(scope, { servers: 3 })
  const { observed, restarts, whileDrained, twice } = await restartInTurn(scope, group, { requests, perSecond })
  console.log(`${restarts} restarts at ${perSecond} requests/s: ${summary(observed)}; ${quantiles(observed.latencies)}`)
  console.log(`failures: ${describeFailures(observed)}`)
  console.log(`${whileDrained} requests reached a drained server, ${twice.length} were executed twice`)
  return failed(observed) === 0 && twice.length === 0 && restarts >= 3
})
