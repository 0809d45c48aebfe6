// `npm run drill -- confirm <rounds>`: ten change sets in each round are applied for two seconds, and half of them confirmed around
// the deadline, while processes are killed or restarted, or PostgreSQL is killed. Each is undone within two seconds, or stays
// because its confirmation was answered with success. A build whose undo has no effect fails.
import { confirmAtRandom, undoForShow, undoWithoutEffect } from '../confirm/trials.ts'
import { drill } from '../harness/drill.ts'

const rounds = Number(process.argv[2] ?? 30)

await drill(async (scope) => {
  const { faults, ...figures } = await confirmAtRandom(scope, { rounds, trialsPerRound: 10 })
  const { trials, confirmed, reverted, latestMs } = figures
  console.log(
    `${trials} trials in ${rounds} rounds: ${confirmed} confirmed, ${reverted} undone, at most ${latestMs} ms late; ${faults.length} faults`,
  )
  for (const fault of faults.slice(0, 20)) console.log(fault)
  for (const prepare of [undoWithoutEffect, undoForShow]) {
    const control = await confirmAtRandom(scope, { rounds: 1, trialsPerRound: 4, prepare })
    console.log(`Control, ${prepare.name}: ${control.faults.length} faults, such as ${control.faults[0]}`)
    if (control.faults.length === 0) return false
  }
  return faults.length === 0 && confirmed > 0 && reverted > 0
})
