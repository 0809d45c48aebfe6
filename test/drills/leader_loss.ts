// `npm run drill:leader-loss -- <changes>`: three NATS servers, and the one that leads the bucket is killed mid-run,
// twice. Every change must come into force, also those that nobody waits for; it prints how long the worst took.
import { loseLeaders } from '../agent/lose_leaders.ts'
import { drill } from '../harness/drill.ts'
import { quantiles } from '../harness/quantiles.ts'

const changes = Number(process.argv[2] ?? 1_000)

await drill(async (scope) => {
  const { latencies, unseen, wrong, edges } = await loseLeaders(scope, changes, console.log)
  console.log(`${changes} changes, each seen in force: ${quantiles(latencies)}`)
  console.log(
    `${unseen} changes beside them that nobody waited for: ${wrong} of ${edges} edges in another state than the API says`,
  )
  return wrong === 0
})
