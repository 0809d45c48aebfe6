// `npm run drill -- disk-faults`: a thousand times a write of an edge node fails while policies and edges change; what it
// reports as applied is in force.
import { startTcpUpstream } from '../agent/live_harness.ts'
import { startFaultyNode } from '../disk_faults/node.ts'
import { runRounds } from '../disk_faults/rounds.ts'
import { drill } from '../harness/drill.ts'
import { startInstallation } from '../harness/edge.ts'

const rounds = Number(process.argv[2] ?? 1_000)

await drill(async (scope) => {
  const installation = await startInstallation(scope)
  const began = Date.now()
  const node = await startFaultyNode(scope, installation)
  const { port: upstreamPort } = await startTcpUpstream(scope)
  const { faults, failures, traffic, restarts } = await runRounds(installation, { node, upstreamPort }, rounds)
  for (const [operation, count] of [...failures].sort()) console.log(`${count} × ${operation}`)
  for (const fault of faults) console.error(fault)
  const seconds = ((Date.now() - began) / 1_000).toFixed(1)
  const failed = failures.values().reduce((sum, count) => sum + count, 0)
  console.log(
    `${rounds} rounds, ${failed} failed writes, ${restarts} restarts of the agent, ${traffic} times traffic: ${faults.length} faults, ${seconds} s`,
  )
  return faults.length === 0
})
