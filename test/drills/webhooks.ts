// `npm run drill -- webhooks`: 10,000 audit events to a receiver that is killed and slowed at random: all arrive, in order
// for each resource, none before its commit.
import { startControlPlane } from '../harness/control_plane.ts'
import { drill } from '../harness/drill.ts'
import { webhookEnv } from '../webhooks/environment.ts'
import { storm } from '../webhooks/storm.ts'

const events = Number(process.argv[2] ?? 10_000)

await drill(async (scope) => {
  const plane = await startControlPlane(scope, { processes: 2, env: webhookEnv })
  const { faults, figures, refused, events: delivered } = await storm(scope, plane, events)
  for (const fault of faults.slice(0, 20)) console.error(fault)
  console.log(figures)
  return faults.length === 0 && refused === 0 && delivered >= events
})
