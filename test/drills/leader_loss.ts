// `npm run drill -- leader-loss <changes>`: three NATS servers, the leader killed twice: no change is lost, and how long the
// slowest takes. Changes made without waiting count too.
import { loseLeaders } from '../agent/lose_leaders.ts'
import { drill } from '../harness/drill.ts'
import { quantiles } from '../harness/quantiles.ts'

const changes = Number(process.argv[2] ?? 1_000)

await drill(async (scope) => {
  const { latencies, unseen, wrong, edges } = await loseLeaders(scope, changes, console.log)
  console.log(`${changes} changes, each seen in force: ${quantiles(latencies)}`)
  console.log(
    `${unseen} changes beside them that were not awaited: ${wrong} of ${edges} edges in another state than the API says`,
  )
  return wrong === 0
})
