// `npm run drill -- reverts <rounds> <accounts>`: in each account, three people change things, apply change sets and undo changes at the same time
// on two processes, and a third is killed now and then. After each round several changes are undone: each puts back exactly
// its own part or says what is in the way, and undoing that restores everything.
import { startControlPlane } from '../harness/control_plane.ts'
import { drill } from '../harness/drill.ts'
import { type Counts, revertAtRandom } from '../reverts/random.ts'

const rounds = Number(process.argv[2] ?? 100)
const accounts = Number(process.argv[3] ?? 4)

await drill(async (scope) => {
  const env = { GATEHOUSE_REQUESTS_PER_MINUTE: '1000000' }
  const plane = await startControlPlane(scope, { processes: 2, env })
  const began = Date.now()
  const total: Counts = { undone: 0, conflicts: 0, irreversible: 0, killed: 0, changes: 0 }
  const each = Array.from({ length: accounts }, (_, index) => Math.ceil((rounds - index) / accounts))
  // Accounts do not meet, so they can be busy at the same time.
  await Promise.all(
    each.map(async (share) => {
      const counts = await revertAtRandom(plane, share)
      for (const name of Object.keys(total) as (keyof Counts)[]) total[name] += counts[name]
    }),
  )
  const { changes, undone, conflicts, irreversible, killed } = total
  const seconds = Math.round((Date.now() - began) / 1_000)
  console.log(
    `${rounds} rounds in ${accounts} accounts, ${seconds} s: ${changes} changes, ${killed} processes killed; ${undone} undone exactly, ${conflicts} in conflict with later changes, ${irreversible} that cannot be undone`,
  )
  return undone > 0 && conflicts > 0
})
