// `npm run drill -- publishers <cells> <rounds>`: two processes share the publishers of 8 cells, and take over from each
// other when one is killed. Prints how long each cell had no publisher, and the same for a process that is paused.
import { startNats } from '../../dev/nats.ts'
import { addSigningKey } from '../../src/publisher/signing_keys.ts'
import { type ServeProcess, secretsBox, startControlPlane } from '../harness/control_plane.ts'
import { drill } from '../harness/drill.ts'
import { poll } from '../harness/poll.ts'
import { createCells, publishedBy } from '../harness/publishers.ts'
import { quantile, quantiles } from '../harness/quantiles.ts'

const cells = Number(process.argv[2] ?? 8)
const rounds = Number(process.argv[3] ?? 5)
const goalMs = 2_000

/** How long it takes until the process publishes in each of the cells. */
async function timeUntilAll(survivor: ServeProcess, wanted: readonly string[]): Promise<number[]> {
  const from = performance.now()
  const times = new Map<string, number>()
  await poll(
    async () => {
      for (const cell of await publishedBy(survivor))
        if (wanted.includes(cell) && !times.has(cell)) times.set(cell, performance.now() - from)
      return times.size
    },
    (count) => count === wanted.length,
    { everyMs: 10 },
  )
  return [...times.values()]
}

await drill(async (scope) => {
  const nats = await startNats()
  scope.after(() => nats.stop())
  const prepare = async (db: Parameters<typeof createCells>[0]) => {
    await createCells(db, cells - 1)
    await addSigningKey(db, secretsBox)
  }
  const plane = await startControlPlane(scope, { env: nats.controlPlane, prepare })
  const [first] = plane.processes
  if (!first) return false
  let survivor = first
  const times = { SIGKILL: [] as number[], SIGSTOP: [] as number[] }
  for (let round = 0; round < rounds * 2; round++) {
    const signal = round % 2 === 0 ? 'SIGKILL' : 'SIGSTOP'
    const other = await plane.startProcess()
    const started = performance.now()
    const [, its = []] = await poll(
      () => Promise.all([survivor, other].map(publishedBy)),
      (shares) => shares.every((share) => share.length === cells / 2),
    )
    console.log(`shared ${cells / 2} and ${cells / 2} within ${((performance.now() - started) / 1_000).toFixed(1)} s`)
    other.child.kill(signal)
    const taken = await timeUntilAll(survivor, its)
    times[signal].push(...taken)
    console.log(`${signal}: ${taken.map((ms) => Math.round(ms)).join(', ')} ms`)
    if (signal === 'SIGSTOP') {
      other.child.kill('SIGCONT')
      await poll(async () => (await publishedBy(other)).length === 0)
      // The roles change: the next one to be killed is older.
      survivor.child.kill('SIGKILL')
      await timeUntilAll(other, its)
      survivor = other
    }
  }
  for (const [signal, all] of Object.entries(times)) console.log(`${signal}: ${all.length} cells, ${quantiles(all)}`)
  return quantile(times.SIGKILL, 1) < goalMs
})
