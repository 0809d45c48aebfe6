// `npm run drill -- reverts <rounds>`: three people change things, apply change sets and undo changes at the same time on two
// processes, and a third is killed now and then. After each round several changes are undone: each puts back exactly its own
// part or says what is in the way, and undoing that restores everything.
import { startControlPlane } from '../harness/control_plane.ts'
import { drill } from '../harness/drill.ts'
import { revertAtRandom } from '../reverts/random.ts'

const rounds = Number(process.argv[2] ?? 100)

await drill(async (scope) => {
  const plane = await startControlPlane(scope, { processes: 2 })
  const { changes, undone, conflicts, irreversible, killed } = await revertAtRandom(plane, rounds)
  console.log(
    `${rounds} rounds: ${changes} changes, ${killed} processes killed; ${undone} undone exactly, ${conflicts} in conflict with later changes, ${irreversible} that cannot be undone`,
  )
  return undone > 0 && conflicts > 0
})
