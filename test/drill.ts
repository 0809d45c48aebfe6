// A drill shows at scale what tests show with small numbers, and prints what it did.
//   npm run drill                       lists them
//   npm run drill -- revocation 500     runs one, with its own arguments
import { spawnSync } from 'node:child_process'
import { ensureTestProgram } from '../dev/bundle.ts'
import { putEnginesOnPath } from '../dev/engines.ts'
import { listDrills } from './harness/drills.ts'
import { runWithEnvironment } from './harness/environment.ts'

const [name, ...args] = process.argv.slice(2)
const drills = await listDrills()
const chosen = drills.find((drill) => drill.name === name)
if (!chosen) {
  if (name) console.error(`There is no drill ${name}.\n`)
  console.log('npm run drill -- <name> [arguments]\n')
  for (const { usage, summary } of drills) console.log(`${usage}\n    ${summary}`)
  process.exit(name ? 2 : 0)
}
putEnginesOnPath()
if (chosen.onMachine)
  process.exit(spawnSync(process.execPath, [chosen.file, ...args], { stdio: 'inherit' }).status ?? 1)
process.env.GATEHOUSE_TEST_PROGRAM = await ensureTestProgram()
// Explicit: the package that starts PostgreSQL makes a process that merely finishes exit with 0, even with another exitCode.
process.exit(await runWithEnvironment([chosen.file, ...args]))
