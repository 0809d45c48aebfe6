// `npm run drill -- new-node <records> <runs>`: nodes with an empty disk and 66,000 records: nothing is let through before
// everything is enforced. The records that refuse come last, and no request may be answered 2xx before they are enforced.
import { stop } from '../harness/control_plane.ts'
import { drill } from '../harness/drill.ts'
import {
  askUntilEnforced,
  completeBucket,
  loseBucket,
  servesWhatIsOpen,
  startCrowdedInstallation,
} from '../hostile/new_node.ts'

const records = Number(process.argv[2] ?? 66_000)
const runs = Number(process.argv[3] ?? 5)

await drill(async (scope) => {
  const installation = await startCrowdedInstallation(scope, records)
  await loseBucket(installation)
  let opened = 0
  for (let run = 0; run < runs; run++) {
    // The first one while the bucket is still being filled again.
    const held = run > 0 ? await completeBucket(installation, 1_800) : undefined
    const edge = await installation.startEdge({ cutOff: true })
    const seen = await askUntilEnforced(edge, installation.tcpPort, 1_800)
    opened += seen.wrong.length + seen.tcpOpened
    const answers = Object.entries(seen.counts).map(([status, count]) => `${count} × ${status}`)
    console.log(
      `run ${run + 1}, ${held === undefined ? 'while the bucket is filled' : `${held} records in the bucket`}: ` +
        `enforced after ${seen.seconds.toFixed(1)} s with ${seen.records} records; ${answers.join(', ')}; ` +
        `2xx before: ${seen.wrong.length}, TCP connections let in: ${seen.tcpOpened}, then open: ${await servesWhatIsOpen(edge)}`,
    )
    await stop(edge.child)
  }
  console.log(`${opened} of all were let through before everything was enforced`)
  return opened === 0
})
