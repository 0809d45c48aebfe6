// Runs the tests on a real PostgreSQL of their own, then searches everything they left behind for tokens.
//   npm test                            all of them
//   npm test -- src/kernel              those whose path contains one of the words
//   npm run test:thorough               with more rounds and larger sizes, where a test has both
//   npm test -- --times                 prints how much processor time each file took, and how long
//   npm test -- --near src/kernel/ids.ts those that import the file, are beside it, or start the part it belongs to
//   node test/run.ts --fast, --rest     those of `npm run check:fast`, and all others
import { relative, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { ensureTestProgram } from '../dev/bundle.ts'
import { ensureClient, ensureDashboard } from '../dev/dashboard.ts'
import { ensureDocs } from '../dev/docs_site/build.ts'
import { putEnginesOnPath } from '../dev/engines.ts'
import { ensureBuilt } from './harness/build.ts'
import { runWithEnvironment } from './harness/environment.ts'
import { importGraph } from './harness/imports.ts'
import { isFast, testsNear } from './harness/near.ts'
import { enterGroup } from './harness/processor_time.ts'

const root = new URL('..', import.meta.url).pathname
putEnginesOnPath()

/** Started first: a long file that starts last keeps one core busy while the other has nothing left. `--times` tells. */
const longest = [
  'test/simulation/simulation.test.ts',
  'test/input/every_route.test.ts',
  'test/isolation.test.ts',
  'test/dashboard/accessibility.test.ts',
  'test/dev.test.ts',
  'test/dashboard/traffic.test.ts',
  'test/dashboard/managed_certificates.test.ts',
  'test/dashboard/unsaved.test.ts',
  'test/dashboard/journey.test.ts',
  'test/doctor/doctor.test.ts',
  'test/dashboard/forms.test.ts',
  'test/packages.test.ts',
  'test/agent/distribution.test.ts',
  'test/agent/nats_sink.test.ts',
  'test/hostile/upstreams.test.ts',
  'test/dashboard/keyboard.test.ts',
  'test/agent/agent.test.ts',
  'test/agent/agent_traffic.test.ts',
  'test/commands.test.ts',
  'test/lockout.test.ts',
  'test/rule_sets.test.ts',
  'test/hostile/new_node.test.ts',
  'test/durability.test.ts',
  'test/cli/state_crash.test.ts',
  'test/tutorial.test.ts',
  'test/agent/restore.test.ts',
  'test/cli/state.test.ts',
  'test/reverts.test.ts',
  'test/readme.test.ts',
  'test/reference.test.ts',
  'test/webhooks/webhooks.test.ts',
]
const rank = (file: string) => (longest.includes(file) ? longest.indexOf(file) : longest.length)

// Flags that are not ours go to the node process of each test file.
const { values, positionals, tokens } = parseArgs({
  strict: false,
  allowPositionals: true,
  tokens: true,
  options: {
    near: { type: 'string', multiple: true },
    fast: { type: 'boolean' },
    rest: { type: 'boolean' },
    times: { type: 'boolean' },
    thorough: { type: 'boolean' },
  },
})
// Before anything is built or started, so that all of it counts.
const processorTime = values.times ? enterGroup(`gatehouse-tests-${process.pid}`) : undefined
if (values.thorough) process.env.GATEHOUSE_TEST_THOROUGH = 'yes'
process.env.GATEHOUSE_TEST_PROGRAM = await ensureTestProgram()
const ours = ['near', 'fast', 'rest', 'thorough']
const flags = tokens.flatMap((token) =>
  token.kind === 'option' && !ours.includes(token.name)
    ? [token.rawName + (token.value === undefined ? '' : `=${token.value}`)]
    : [],
)
const graph = await importGraph('{src,test,dev,bench,dashboard/src}/**/*.{ts,tsx}')
const all = [...graph.keys()].filter((file) => file.endsWith('.test.ts'))
for (const file of longest) if (!all.includes(file)) throw new Error(`${file} is gone: remove it from 'longest'`)
const near = values.near?.map(String).flatMap((file) => testsNear(relative(root, resolve(file)), graph))
const files = all
  .filter((file) => positionals.length === 0 || positionals.some((word) => file.includes(word)))
  .filter((file) => !near || near.includes(file))
  .filter((file) => (!values.fast || isFast(file, graph)) && !(values.rest && isFast(file, graph)))
  .sort()
  .sort((a, b) => rank(a) - rank(b))
if (files.length === 0) throw new Error(`no test file has ${positionals.join(' or ')} in its path`)
if (near) console.log(`${files.length} test files near ${values.near?.join(', ')}:\n${files.join('\n')}\n`)
// Once for all files, since they run concurrently.
if (files.some((file) => /^test\/package[ds]\./.test(file))) await ensureBuilt()
await ensureClient()
if (files.some((file) => file.startsWith('test/dashboard/'))) await ensureDashboard()
if (files.some((file) => /^test\/(docs_site|reference)/.test(file))) await ensureDocs()
const packages = `--import=${new URL('harness/bundled_packages.ts', import.meta.url).href}`
// Explicit: the package that starts PostgreSQL makes a process that merely finishes exit with 0, even with another exitCode.
const code = await runWithEnvironment(['test/harness/run_files.ts', ...flags, packages, ...files])
if (processorTime)
  console.log(`${processorTime().toFixed(0)} s of processor time, with builds, PostgreSQL and the shared control plane`)
process.exit(code)
