// `npm run drill -- upgrade <sites> <rules per site> <requests a second>`: an installation of each older version is upgraded
// to least privilege (GATEHOUSE_DATABASE_APP_ROLE) while its publisher is active and requests flow through its edge node and
// to its API. No request may fail, and no denied address may get in. Needs the history of the repository and, the first
// time, the npm registry.
import { drill } from '../harness/drill.ts'
import { describeFailures, failed } from '../harness/open_loop.ts'
import { quantiles } from '../harness/quantiles.ts'
import { olderVersions } from '../upgrade/older_version.ts'
import { upgrade } from '../upgrade/upgrade.ts'

const [sites = 20, rules = 100, perSecond = 100] = process.argv.slice(2).map(Number)

await drill(async (scope) => {
  let failures = 0
  for (const from of olderVersions) {
    const { edge, api, strangers, errors } = await upgrade(scope, from, { sites, rules, perSecond })
    const apiFailures = Object.values(api.failures).reduce((sum, count) => sum + count, 0)
    console.log(
      `edge: ${edge.sent} requests, ${failed(edge)} failed (${describeFailures(edge)}); ${quantiles(edge.latencies)}`,
    )
    console.log(`API: ${api.sent} requests, ${apiFailures} failed, the slowest took ${Math.round(api.slowestMs)} ms`)
    for (const [kind, count] of Object.entries(api.failures)) console.log(`  ${count} × ${kind}`)
    for (const error of errors) console.log(`  ${JSON.stringify(error).slice(0, 500)}`)
    console.log(`denied address: ${strangers.tried} requests, ${strangers.letIn} let in`)
    failures += failed(edge) + apiFailures + strangers.letIn
  }
  return failures === 0
})
