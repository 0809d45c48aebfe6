// `npm run drill -- stolen-node <runs>`: records replaced, removed and set back in NATS, and unsigned entries: new nodes
// answer 403 or 503, never 200. Each kind of damage by itself, all of them together, and litter with a restart of the
// publisher.
import { stop } from '../harness/control_plane.ts'
import { drill } from '../harness/drill.ts'
import { askNewNode, damages, startGuarded } from '../hostile/tampered_bucket.ts'

const runs = Number(process.argv[2] ?? 5)

await drill(async (scope) => {
  const installation = await startGuarded(scope)
  await stop(installation.node.child)
  const attacks = [
    ...damages.map((damage) => ({ name: damage, does: () => installation.harm(damage), asks: [damage] })),
    {
      name: 'all of them',
      does: () => Promise.all(damages.map(installation.harm)),
      asks: [...damages],
    },
    {
      name: '150 unsigned keys, and the publisher restarts',
      async does() {
        await installation.litter(150)
        const last = installation.processes.at(-1)
        await installation.startProcess()
        last?.child.kill('SIGKILL')
      },
      asks: [...damages],
    },
  ]
  let wrong = 0
  for (const { name, does, asks } of attacks)
    for (let run = 1; run <= runs; run++) {
      await does()
      const { counts, refused, open } = await askNewNode(installation, asks)
      const answers = Object.entries(counts).map(([status, count]) => `${count} × ${status}`)
      console.log(`${name}, run ${run}: ${answers.join(', ')}; then the open route: ${open}`)
      if (counts[200] || refused.length < asks.length || open !== 200) wrong++
    }
  console.log(`${wrong} of ${attacks.length * runs} new nodes let a refused address in, or did not start`)
  return wrong === 0
})
