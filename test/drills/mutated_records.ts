// `npm run drill -- mutated-records <records> <seed>`: no signed record with wrong fields is accepted, ends the agent or becomes more than its own entries.
import { drill } from '../harness/drill.ts'
import { checkMutations } from '../mutated_records/pure.ts'

const records = Number(process.argv[2] ?? 1_000_000)
const seed = Number(process.argv[3] ?? Date.now() % 2 ** 31)

await drill(async () => {
  const began = Date.now()
  const { refused, faults } = checkMutations(records, seed)
  for (const fault of faults.slice(0, 10)) console.error(fault)
  const seconds = (Date.now() - began) / 1_000
  const rate = Math.round(records / seconds)
  console.log(
    `${records} records of seed ${seed}, ${refused} refused: ${faults.length} defects, ${seconds.toFixed(1)} s (${rate} a second)`,
  )
  return faults.length === 0
})
