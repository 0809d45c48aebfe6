// `npm run drill -- durability`: processes and PostgreSQL killed with -9: no acknowledged change is lost.
import { acknowledgingTooEarly, crashPostgres, crashProcesses, figuresOf } from '../durability/crashes.ts'
import { drill } from '../harness/drill.ts'

const times = Number(process.argv[2] ?? 30)

await drill(async (scope) => {
  const processes = await crashProcesses(scope, times)
  console.log(`a process killed ${times} times: ${figuresOf(processes)}`)
  const postgres = await crashPostgres(scope, { times })
  console.log(`PostgreSQL killed ${times} times: ${figuresOf(postgres)}`)
  const early = await crashPostgres(scope, { times: 3, flags: acknowledgingTooEarly })
  console.log(`PostgreSQL killed 3 times with synchronous_commit=off, where there must be faults: ${figuresOf(early)}`)
  for (const fault of [...processes.faults, ...postgres.faults]) console.error(fault)
  return processes.faults.length === 0 && postgres.faults.length === 0 && early.faults.length > 0
})
