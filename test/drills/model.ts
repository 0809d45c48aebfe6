// `npm run drill -- model`: 10,000 random sequences of operations agree with the small model of the API in
// test/model/model.ts.
import { startControlPlane } from '../harness/control_plane.ts'
import { drill } from '../harness/drill.ts'
import { runSequences } from '../model/sequences.ts'

const count = Number(process.argv[2] ?? 10_000)

await drill(async (scope) => {
  const plane = await startControlPlane(scope, { env: { GATEHOUSE_TCP_PORTS: '20000-65535' } })
  const began = Date.now()
  const { calls, answers } = await runSequences(plane, count)
  const seconds = ((Date.now() - began) / 1_000).toFixed(1)
  console.log(`${count} sequences, ${calls} calls, all as the model says, ${seconds} s`)
  console.log(answers)
  return true
})
