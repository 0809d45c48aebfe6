// `npm run check`: everything that must hold before a change lands. CI runs just this.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'

type Step = [what: string, command: string, ...args: string[]]

const root = new URL('..', import.meta.url).pathname
/** What only reads, side by side: their output comes when each has ended. */
const readers: Step[] = [
  ['format and lint', 'biome', 'ci', '--colors=off', '--error-on-warnings', '.'],
  ['spelling', 'cspell', '--no-progress', '--no-summary', '--no-color', '--show-suggestions'],
  ['types', 'tsc', '--noEmit'],
  ['types of the dashboard', 'tsc', '-p', 'dashboard'],
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

demand(await run(['client of the dashboard', 'node', 'dashboard/generate_client.ts'], 'as it comes'))
demand((await Promise.all(readers.map((step) => run(step, 'at the end')))).every(Boolean))
demand(await run(['build', 'node', 'dev/build.ts', '--checked'], 'as it comes'))
demand(await run(['tests', 'node', 'test/run.ts'], 'as it comes'))
console.log(`\nAll checks passed in ${secondsSince(began)}.`)
