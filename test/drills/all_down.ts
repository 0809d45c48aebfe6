// `npm run drill -- all-down <rounds>`: all servers killed and frozen: how soon the node answers 503, and how soon it uses
// one that is back. The node has to answer 503 within 50 ms, with a reason and an id, and to use a server that is back
// within one check interval.
import { endAll } from '../backends/all_down.ts'
import { everySecond, startGroup } from '../backends/group.ts'
import { drill } from '../harness/drill.ts'
import { quantile, quantiles } from '../harness/quantiles.ts'

const rounds = Number(process.argv[2] ?? 5)
const intervalSeconds = 2
/** For the answer that shows it: a check at the very end of the interval, and a request after it. */
const toleranceMs = 250

await drill(async (scope) => {
  let isHeld = true
  const health_check = { ...everySecond, interval_seconds: intervalSeconds }
  const group = await startGroup(scope, { servers: 2, health_check })
  for (const how of ['kill', 'freeze'] as const) {
    const done = await endAll(scope, group, { rounds, asks: 200, how })
    const answers = done.flatMap((round) => round.answers)
    const recovered = done.map(({ recoveredMs }) => recoveredMs)
    console.log(`${how}, ${rounds} rounds, a check every ${intervalSeconds} s, both servers down:`)
    console.log(`  first 503 within 50 ms: ${quantiles(done.map(({ noticedMs }) => noticedMs))} after the end`)
    console.log(`  ${answers.length} answers 503 with a reason and an id: ${quantiles(answers)}`)
    console.log(`  recovered after ${quantiles(recovered)}`)
    isHeld &&= quantile(answers, 0.99) <= 50 && Math.max(...recovered) <= intervalSeconds * 1_000 + toleranceMs
  }
  return isHeld
})
