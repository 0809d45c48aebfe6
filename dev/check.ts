// `npm run check`: everything that must hold before a change lands, in the order of how soon it tells. CI runs just this.
import { spawnSync } from 'node:child_process'

const root = new URL('..', import.meta.url).pathname
const steps: [what: string, command: string, ...args: string[]][] = [
  ['format and lint', 'biome', 'ci', '--colors=off', '--error-on-warnings', '.'],
  ['types', 'tsc', '--noEmit'],
  ['client of the dashboard', 'node', 'dashboard/generate_client.ts'],
  ['types of the dashboard', 'tsc', '-p', 'dashboard'],
  ['lockfile', 'node', 'dev/lockfile.ts'],
  ['generated files are current', 'node', 'dev/openapi.ts', '--check'],
  ['openapi.json', 'node', 'dev/lint_openapi.ts'],
  ['build', 'node', 'dev/build.ts'],
  ['tests', 'node', 'test/run.ts'],
]

const began = Date.now()
for (const [what, command, ...args] of steps) {
  const stepBegan = Date.now()
  console.log(`\n── ${what}`)
  const { status } = spawnSync(command, args, {
    cwd: root,
    stdio: 'inherit',
    env: { ...process.env, PATH: `${root}node_modules/.bin:${process.env.PATH}` },
  })
  if (status !== 0) {
    console.error(`\n── ${what}: failed. Nothing after it was run.`)
    process.exit(1)
  }
  console.log(`── ${what}: ${((Date.now() - stepBegan) / 1000).toFixed(1)} s`)
}
console.log(`\nAll checks passed in ${((Date.now() - began) / 1000).toFixed(0)} s.`)
