// `npm run drill -- outbox`: eight writers with rollbacks and slow commits, and a reader misses nothing.
import { startControlPlane } from '../harness/control_plane.ts'
import { drill } from '../harness/drill.ts'
import { outboxRounds } from '../outbox/rounds.ts'

const seconds = Number(process.argv[2] ?? 60)

await drill(async (scope) => {
  const plane = await startControlPlane(scope)
  const { faults, settled, naive, figures } = await outboxRounds(scope, plane, seconds * 1_000)
  for (const fault of [...faults, ...settled.wentBack].slice(0, 20)) console.error(fault)
  console.log(figures)
  const held = faults.length === 0 && settled.missed === 0 && settled.repeated === 0 && settled.wentBack.length === 0
  // A drill in which a naive reader misses nothing shows nothing.
  return held && naive.missed > 0
})
