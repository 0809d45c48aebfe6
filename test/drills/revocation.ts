// `npm run drill -- revocation`: a key deleted through one process is refused by the others from the next request on.
import { startControlPlane } from '../harness/control_plane.ts'
import { drill } from '../harness/drill.ts'
import { revocationRounds } from '../revocation/rounds.ts'

const rounds = Number(process.argv[2] ?? 10_000)

await drill(async (scope) => {
  const plane = await startControlPlane(scope, { processes: 2 })
  const began = Date.now()
  const faults = await revocationRounds(plane, await plane.newAccount(), { by: 'key deleted', rounds })
  for (const fault of faults) console.error(fault)
  const seconds = ((Date.now() - began) / 1_000).toFixed(1)
  console.log(`${rounds} keys deleted on one process and used on another: ${faults.length} faults, ${seconds} s`)
  return faults.length === 0
})
