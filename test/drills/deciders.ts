// `npm run drill -- deciders <cases> <seed>`: our address matching, `net.BlockList` and PostgreSQL agree on generated rules.
import { openPool } from '../../src/db/pool.ts'
import { compareDeciders } from '../deciders/compare.ts'
import { newDatabase } from '../harness/control_plane.ts'
import { drill } from '../harness/drill.ts'

const cases = Number(process.argv[2] ?? 1_000_000)
const seed = Number(process.argv[3] ?? Date.now() % 2 ** 31)

await drill(async (scope) => {
  const url = await newDatabase()
  const db = openPool({ url, poolSize: 2, connectTimeoutMs: 10_000, statementTimeoutMs: 120_000 }, () => {})
  scope.after(() => db.end())
  const began = Date.now()
  const { allowed, faults } = await compareDeciders(db, { cases, seed })
  for (const fault of faults.slice(0, 10)) console.error(fault)
  const seconds = ((Date.now() - began) / 1_000).toFixed(1)
  console.log(`${cases} cases of seed ${seed}, ${allowed} allowed: ${faults.length} disagreements, ${seconds} s`)
  return faults.length === 0
})
