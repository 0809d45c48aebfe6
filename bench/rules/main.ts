// What `bench/run.ts` starts for `rules`, in the environment of the tests. Writes what it measured to a file, as JSON.
import { writeFile } from 'node:fs/promises'
import { parseArgs } from 'node:util'
import { type Scope, startControlPlane } from '../../test/harness/control_plane.ts'
import { drill } from '../../test/harness/drill.ts'
import { measureAccessTests } from './access_tests.ts'
import { measureEdge } from './edge.ts'
import type { Measured } from './measures.ts'
import { measureOneRule } from './one_rule.ts'
import { measureReplacement } from './replacement.ts'
import { addSmallAccounts } from './small_accounts.ts'

const { values } = parseArgs({
  options: {
    rounds: { type: 'string', default: '12' },
    ranges: { type: 'string', default: '1000000' },
    parts: { type: 'string', default: 'replace,one,edge,tests' },
    output: { type: 'string', default: '/dev/stdout' },
  },
})
const rounds = Number(values.rounds)
// The defaults of an installation, not those of the tests: a time-out must show.
const env = { GATEHOUSE_DATABASE_TIMEOUT_MS: '5000' }

const parts: Record<string, (scope: Scope) => Promise<Measured[]>> = {
  async replace(scope) {
    const plane = await startControlPlane(scope, { env })
    await addSmallAccounts(plane.db)
    return measureReplacement(plane, rounds)
  },
  async one(scope) {
    const plane = await startControlPlane(scope, { processes: 2, env })
    await addSmallAccounts(plane.db)
    return measureOneRule(plane, rounds)
  },
  tests: async (scope) => measureAccessTests(await startControlPlane(scope, { env }), rounds),
  edge: (scope) => measureEdge(scope, rounds, Number(values.ranges)),
}

const outcome: Record<string, Measured[]> = {}
for (const name of values.parts.split(',')) {
  const part = parts[name]
  if (!part) throw new Error(`there is no part '${name}', only ${Object.keys(parts).join(', ')}`)
  await drill(async (scope) => {
    outcome[name] = await part(scope)
    return true
  })
}
await writeFile(values.output, JSON.stringify(outcome))
// The package that starts NATS and PostgreSQL keeps the process alive otherwise.
process.exit(0)
