// `npm run drill -- newly-refused <histories> <first seed>`: 1,000 random histories of traffic and changes, each compared
// with an oracle that keeps every state.
import { startControlPlane } from '../harness/control_plane.ts'
import { drill } from '../harness/drill.ts'
import { behindProxy } from '../harness/ip.ts'
import { playHistories } from '../newly_refused/histories.ts'

const histories = Number(process.argv[2] ?? 1_000)
const seed = Number(process.argv[3] ?? Date.now() % 1_000_000)

await drill(async (scope) => {
  const env = { ...behindProxy, GATEHOUSE_REQUESTS_PER_MINUTE: '100000' }
  const plane = await startControlPlane(scope, { env })
  const began = Date.now()
  console.log(`seeds ${seed} to ${seed + histories - 1}`)
  const { listed, faults } = await playHistories(plane, seed, histories, 16)
  for (const fault of faults.slice(0, 10)) console.error(fault)
  const seconds = ((Date.now() - began) / 1_000).toFixed(0)
  console.log(
    `${histories} histories, ${listed} newly refused addresses: ${faults.length} histories differ, ${seconds} s`,
  )
  return faults.length === 0
})
