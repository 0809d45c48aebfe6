// `npm run drill:policy-race`: 10,000 times a policy is deleted while something else wants it, through two processes.
import { startControlPlane } from '../harness/control_plane.ts'
import { drill } from '../harness/drill.ts'
import { racePolicies } from '../policy_race/rounds.ts'

const rounds = Number(process.argv[2] ?? 10_000)

await drill(async (scope) => {
  const plane = await startControlPlane(scope, { processes: 2 })
  const began = Date.now()
  const { outcomes, faults } = await racePolicies(plane, { rounds })
  for (const [outcome, count] of Object.entries(outcomes).sort()) console.log(`${count} × ${outcome}`)
  for (const fault of faults.slice(0, 20)) console.error(fault)
  console.log(`${rounds} races: ${faults.length} faults, ${((Date.now() - began) / 1_000).toFixed(1)} s`)
  return faults.length === 0
})
