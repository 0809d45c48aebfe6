// `npm run drill -- reverts <sequences> <kills> <lanes> <minutes>`: in each sequence, two admins and two members change things, apply change sets
// and undo changes at the same time, and the process that two of them call is killed in some. When it is quiet, something is undone: edge nodes get
// exactly what they would without it, or the answer names what is in the way. Builds that make half of a change set, or undo more, fail.
import { startControlPlane } from '../harness/control_plane.ts'
import { drill } from '../harness/drill.ts'
import { noCounts, revertAtRandom, undoingOthers, withoutSecondHalf } from '../reverts/random.ts'

const [sequences = 10_000, kills = 1_000, lanes = 4, minutes = 1_000] = process.argv.slice(2).map(Number)

await drill(async (scope) => {
  const plane = await startControlPlane(scope, { processes: 2 })
  const began = Date.now()
  const counts = noCounts()
  const failure = await revertAtRandom(
    plane,
    { sequences, kills, lanes, until: began + minutes * 60_000 },
    counts,
  ).catch((error: Error) => error)
  const seconds = (Date.now() - began) / 1_000
  const rate = ((counts.sequences * 60) / seconds).toFixed(0)
  console.log(
    `${counts.sequences} sequences in ${seconds.toFixed(0)} s (${rate} a minute): ${counts.changes} changes at the same time, ${counts.killed} processes killed; ${counts.undone} undone exactly, ${counts.exact} of them compared as records beside a later change; ${counts.conflicts} in conflict with later changes, ${counts.irreversible} that cannot be undone; ${counts.looks} looks at all change sets, none half made`,
  )
  if (failure instanceof Error) throw failure
  for (const prepare of [withoutSecondHalf, undoingOthers]) {
    const broken = await startControlPlane(scope, { prepare })
    const fault = await revertAtRandom(broken, { sequences: 100, kills: 0 }).then(
      () => undefined,
      (error: Error) => error.message.split('\n')[0]?.slice(0, 200),
    )
    console.log(`Control, ${prepare.name}: ${fault ?? 'not noticed'}`)
    if (!fault) return false
  }
  return counts.undone > 0 && counts.conflicts > 0
})
