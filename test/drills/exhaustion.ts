// `npm run drill -- exhaustion <words>`: full disks, read-only file systems, missing descriptors and memory, clocks that are off and
// ports that are taken, of a node, NATS, PostgreSQL and the control plane. For each it prints what probes, status, doctor and the
// alerts of a real Prometheus say. Nothing may be reported as applied that is not in force, nothing acknowledged may be lost, and
// everything must work again when the condition has ended. With words, only the conditions that have one of them in their names.
// Needs root, cgroups of version 1, prometheus and faketime.
import { conditions } from '../exhaustion/conditions.ts'
import { examine } from '../exhaustion/examine.ts'
import { startWorld } from '../exhaustion/world.ts'
import { drill } from '../harness/drill.ts'

const wanted = process.argv.slice(2)

await drill(async (scope) => {
  const world = await startWorld(scope)
  let faults = 0
  for (const condition of conditions(world)) {
    if (wanted.length > 0 && !wanted.some((word) => condition.name.includes(word))) continue
    const seen = await examine(world, condition)
    console.log(`\n${condition.name}`)
    for (const [what, text] of Object.entries(seen.said)) console.log(`  ${what.padEnd(12)} ${text || '-'}`)
    for (const fault of seen.faults) console.log(`  FAULT        ${fault}`)
    faults += seen.faults.length
  }
  console.log(`\n${faults} faults`)
  return faults === 0
})
