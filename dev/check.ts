// Everything that must hold before a change lands.
//   npm run check         all of it
//   npm run check:fast    what finds most mistakes within two minutes, and needs nothing but PostgreSQL
//   npm run check:rest    all the rest; CI runs it after check:fast
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'

type Step = [what: string, command: string, ...args: string[]]

const root = new URL('..', import.meta.url).pathname
/** Read-only checks, run in parallel: each prints its output when it has ended. */
const readers: Step[] = [
  ['format and lint', 'biome', 'ci', '--colors=off', '--error-on-warnings', '.'],
  ['spelling', 'cspell', '--no-progress', '--no-summary', '--no-color', '--show-suggestions'],
  ['types', 'tsc', '--noEmit'],
  ['types of the dashboard', 'tsc', '-p', 'dashboard'],
  ['types of the client', 'tsc', '-p', 'clients/typescript', '--noEmit'],
  ['lockfile', 'node', 'dev/lockfile.ts'],
  ['generated files are current', 'node', 'dev/openapi.ts', '--check'],
  ['openapi.json', 'node', 'dev/lint_openapi.ts'],
]

const began = Date.now()
const secondsSince = (moment: number) => `${((Date.now() - moment) / 1000).toFixed(1)} s`

async function run([what, command, ...args]: Step, output: 'as it comes' | 'at the end'): Promise<boolean> {
  const stepBegan = Date.now()
  if (output === 'as it comes') console.log(`\n── ${what}`)
  const child = spawn(command, args, {
    cwd: root,
    stdio: output === 'as it comes' ? 'inherit' : ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, PATH: `${root}node_modules/.bin:${process.env.PATH}` },
  })
  const said = Promise.all([child.stdout ? text(child.stdout) : '', child.stderr ? text(child.stderr) : ''])
  const [code] = await once(child, 'close')
  if (output === 'at the end') console.log(`\n── ${what}\n${(await said).join('').trimEnd()}`)
  if (code === 0) console.log(`── ${what}: ${secondsSince(stepBegan)}`)
  else console.error(`── ${what}: failed.`)
  return code === 0
}

function demand(passed: boolean): void {
  if (passed) return
  console.error('\nNothing after that was run.')
  process.exit(1)
}

const fast: Step = ['fast tests', 'node', 'test/run.ts', '--fast']
const rest: Step = ['all other tests', 'node', 'test/run.ts', '--rest']

const only = process.argv[2]
if (only !== '--rest') {
  demand(await run(['what clients know of the API', 'node', 'dashboard/generate_client.ts'], 'as it comes'))
  demand((await Promise.all(readers.map((step) => run(step, 'at the end')))).every(Boolean))
  demand(await run(fast, 'as it comes'))
}
if (only !== '--fast') {
  demand(await run(['build', 'node', 'dev/build.ts', '--checked'], 'as it comes'))
  demand(await run(rest, 'as it comes'))
}
console.log(`\nAll ${only === '--fast' ? 'fast ' : ''}checks passed in ${secondsSince(began)}.`)
