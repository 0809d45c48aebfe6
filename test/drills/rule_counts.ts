// `npm run drill -- rule-counts <calls>`: a million calls leave exactly their number of hits with every rule.
import { startControlPlane } from '../harness/control_plane.ts'
import { drill } from '../harness/drill.ts'
import { replayDecisions } from '../rule_counts/replay.ts'

const calls = Number(process.argv[2] ?? 1_000_000)

await drill(async (scope) => {
  const plane = await startControlPlane(scope)
  const began = Date.now()
  const { rules, decisions, lost, faults } = await replayDecisions(plane, calls)
  for (const fault of faults.slice(0, 10)) console.error(fault)
  const seconds = ((Date.now() - began) / 1_000).toFixed(1)
  console.log(
    `${calls} calls, ${decisions} decisions by ${rules} rules and outcomes: ${faults.length} differ, ${lost} lost, ${seconds} s`,
  )
  return faults.length === 0 && lost === 0
})
