// Runs the tests on a real PostgreSQL of their own, then searches everything they left behind for tokens.
//   npm test                            all of them
//   npm test -- src/kernel              those whose path contains one of the words
//   node test/run.ts --drill revocation a drill: what the tests show with small numbers, with large ones
import { glob } from 'node:fs/promises'
import { parseArgs } from 'node:util'
import { ensureDashboard } from '../dev/dashboard.ts'
import { putEnginesOnPath } from '../dev/engines.ts'
import { runWithEnvironment } from './harness/environment.ts'

const root = new URL('..', import.meta.url).pathname
putEnginesOnPath()
// Said outright: the package that starts PostgreSQL ends a process that is merely done with 0, whatever its exitCode is.
const end = (code: number) => process.exit(code)

// Flags that are not ours go to node's test runner as they are.
const { values, positionals, tokens } = parseArgs({
  strict: false,
  allowPositionals: true,
  tokens: true,
  options: { drill: { type: 'string' } },
})
if (typeof values.drill === 'string') {
  end(await runWithEnvironment([`test/drills/${values.drill}.ts`, ...positionals]))
} else {
  const flags = tokens.flatMap((token) =>
    token.kind === 'option' ? [token.rawName + (token.value === undefined ? '' : `=${token.value}`)] : [],
  )
  const files = (await Array.fromAsync(glob('{src,test}/**/*.test.ts', { cwd: root })))
    .filter((file) => positionals.length === 0 || positionals.some((word) => file.includes(word)))
    .sort()
  if (files.length === 0) throw new Error(`no test file has ${positionals.join(' or ')} in its path`)
  // Once for all of them: they run at the same time.
  if (files.some((file) => file.startsWith('test/dashboard/'))) await ensureDashboard()
  const runner = ['--test', '--test-concurrency=3', '--test-timeout=600000']
  end(await runWithEnvironment([...runner, ...flags, ...files]))
}
