// `npm run drill -- policy-race`: a policy deleted while it is attached leaves nothing behind. 10,000 times while it is
// being attached, and 2,000 times while its rules are being changed, through two processes.
import { startControlPlane } from '../harness/control_plane.ts'
import { drill } from '../harness/drill.ts'
import { racePolicies, races } from '../policy_race/rounds.ts'

const rounds = Number(process.argv[2] ?? 10_000)

await drill(async (scope) => {
  const plane = await startControlPlane(scope, { processes: 2 })
  const began = Date.now()
  const isAttaching = (kind: string) => kind.startsWith('attached')
  const kinds = Object.keys(races)
  const parts = [
    await racePolicies(plane, { kinds: kinds.filter(isAttaching), rounds }),
    await racePolicies(plane, { kinds: kinds.filter((kind) => !isAttaching(kind)), rounds: rounds / 5 }),
  ]
  const faults = parts.flatMap((part) => part.faults)
  for (const [outcome, count] of parts.flatMap((part) => Object.entries(part.outcomes).sort()))
    console.log(`${count} × ${outcome}`)
  for (const fault of faults.slice(0, 20)) console.error(fault)
  console.log(
    `${rounds} + ${rounds / 5} races: ${faults.length} faults, ${((Date.now() - began) / 1_000).toFixed(1)} s`,
  )
  return faults.length === 0
})
