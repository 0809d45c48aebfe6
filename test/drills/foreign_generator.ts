// `npm run drill -- foreign-generator [rounds] [seed]`: no request that a generator from elsewhere makes of openapi.json, or
// something near it, gets a 5xx or an answer that the document does not describe, and none that the document calls valid is refused.
import { callEverything } from '../foreign_generator/requests.ts'
import { startControlPlane } from '../harness/control_plane.ts'
import { drill } from '../harness/drill.ts'

const [rounds = 100, seed = 1] = process.argv.slice(2).map(Number)

await drill(async (scope) => {
  const plane = await startControlPlane(scope)
  const statuses = new Map<number, number>()
  let [requests, faults] = [0, 0]
  for (let round = 0; round < rounds; round++) {
    const outcome = await callEverything(await plane.newAccount(), seed + round)
    requests += outcome.requests
    faults += outcome.faults.length
    for (const [status, count] of outcome.statuses) statuses.set(status, (statuses.get(status) ?? 0) + count)
    for (const fault of outcome.faults) console.log(fault)
  }
  const shown = [...statuses].sort(([a], [b]) => a - b).map(([status, count]) => `${count} × ${status}`)
  console.log(`${requests} requests, ${faults} faults: ${shown.join(', ')}`)
  return faults === 0 && plane.processes.every(({ child }) => child.exitCode === null)
})
