// `npm run drill -- differential [requests] [accounts] [seed]`: does the edge do what the documentation says, with random accounts, changes and requests?
// Compares what clients, upstreams, the access log and the counts show with an executable specification. 1,000,000 requests
// to 1,000 accounts by default.

import { drill } from '../harness/drill.ts'
import { compareWithSpecification } from '../second_opinion/compare.ts'

const [requests = 1_000_000, accounts = 1_000, seed = Math.floor(Date.now() / 1_000)] = process.argv
  .slice(2)
  .map(Number)

await drill(async (scope) => {
  const started = Date.now()
  const rounds = Math.max(4, Math.ceil(requests / 50_000))
  const found = await compareWithSpecification(scope, { seed, accounts, requests, rounds }, (line) =>
    console.log(`${((Date.now() - started) / 1_000).toFixed(1)} s: ${line}`),
  )
  for (const difference of found.differences.slice(0, 10)) console.log(difference)
  console.log(
    `${found.requests} requests and ${found.connections} TCP connections to ${accounts} accounts in ${Math.round((Date.now() - started) / 1_000)} s: ` +
      `${found.differences.length} differences, ${JSON.stringify(found.outcomes)}`,
  )
  return found.differences.length === 0
})
