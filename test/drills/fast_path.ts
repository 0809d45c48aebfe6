// `npm run drill -- fast-path`: clients and upstreams cannot tell the edge's fast path from the careful one. 100,000
// generated requests through two proxies with the same records, one of them without a fast path. What upstreams receive and
// what clients get must be the same.
import { comparePaths } from '../agent/fast_path/compare.ts'
import { drill } from '../harness/drill.ts'

const count = Number(process.argv[2] ?? 100_000)

await drill(async (scope) => {
  const began = Date.now()
  const { differences, statuses, fastShare, reached, events } = await comparePaths(scope, count)
  const seconds = ((Date.now() - began) / 1_000).toFixed(0)
  for (const difference of differences) console.log(JSON.stringify(difference, null, 2))
  console.log(
    `answers: ${[...statuses]
      .sort()
      .map(([status, times]) => `${times} × ${status}`)
      .join(', ')}`,
  )
  console.log(
    `${count} requests, ${differences.length} differences, ${seconds} s; ${reached.fast} and ${reached.careful} reached ` +
      `the upstream, ${(100 * fastShare).toFixed(0)} % on the fast path; ${events.fast.length} and ` +
      `${events.careful.length} reports of refusals and warnings`,
  )
  const isSame = reached.fast === reached.careful && events.fast.join() === events.careful.join()
  return differences.length === 0 && isSame && fastShare > 0.4
})
