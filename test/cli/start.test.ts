// What a short command costs: it should load only what it needs. `npm run bench -- start` measures it.
import assert from 'node:assert/strict'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { ensureTestProgram } from '../../dev/bundle.ts'
import { operationsIn } from '../../src/cli/bundled_operations.ts'
import { documentedOperations } from '../../src/cli/documented_operations.ts'
import { startControlPlane } from '../harness/control_plane.ts'
import { testRun } from '../harness/test_run.ts'
import { cliFor } from './harness.ts'

test('the operations in the bundle are those of openapi.json', async () => {
  const file = join(await ensureTestProgram(), '..', 'operations.json')
  const bundled = operationsIn(await readFile(file, 'utf8'))
  assert.deepEqual(
    bundled.map((operation) => ({ ...operation })),
    documentedOperations(),
  )
})

/** Loaded before the program: notes which of Node's modules it loads, and what it makes of Intl. */
const watcher = `
const made = []
for (const name of ['Segmenter', 'RelativeTimeFormat', 'Collator', 'DateTimeFormat'])
  Intl[name] = new Proxy(Intl[name], { construct: (...call) => (made.push(name), Reflect.construct(...call)) })
process.on('exit', () => {
  const loaded = process.moduleLoadList.map((each) => each.replace('NativeModule ', ''))
  require('node:fs').writeFileSync(process.env.WATCHED, JSON.stringify({ made, loaded }))
})`

test('a list loads neither fetch nor cryptography, and nothing of Intl', async () => {
  const plane = await startControlPlane({ after })
  const cli = cliFor(plane, await plane.newAccount())
  const [preload, file] = [join(testRun.folder, 'watcher.cjs'), join(testRun.folder, 'watched.json')]
  await writeFile(preload, watcher)
  await cli.ok(['api-keys', 'list'], { env: { NODE_OPTIONS: `--require=${preload}`, WATCHED: file } })
  const { made, loaded } = JSON.parse(await readFile(file, 'utf8'))
  assert.deepEqual(made, [])
  assert.ok(loaded.includes('http'), 'the watcher saw nothing')
  const unused = [
    'internal/deps/undici/undici',
    'crypto',
    'child_process',
    'readline',
    'worker_threads',
    'internal/fs/streams',
  ]
  for (const module of unused) assert.ok(!loaded.includes(module), `${module} was loaded`)
})
