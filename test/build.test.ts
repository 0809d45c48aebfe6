// The command as it is installed: compiled JavaScript, run by its own first line.
import assert from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { glob, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { version } from '../src/version.ts'
import { gatehouse } from './harness/command.ts'
import { newDatabase, stop } from './harness/control_plane.ts'

const root = new URL('..', import.meta.url).pathname
const main = join(root, 'dist/main.js')

/** `npm run check` has built already; building again would take from others what they run. */
async function buildIfOld(): Promise<void> {
  const built = await stat(main).catch(() => undefined)
  const sources = await Array.fromAsync(glob('{src/**/*.ts,tsconfig*.json}', { cwd: root }))
  const changes = await Promise.all(sources.map(async (file) => (await stat(join(root, file))).mtimeMs))
  if (built && built.mtimeMs > Math.max(...changes)) return
  await promisify(execFile)(process.execPath, ['dev/build.ts'], { cwd: root })
}

test('the built command migrates, bootstraps, serves a request and ends', async (t) => {
  await buildIfOld()
  // By its own name, as npm links it: it must be executable and say what runs it.
  const { stdout } = await promisify(execFile)(main, ['version'])
  assert.equal(stdout, `${version}\n`)

  const env = { GATEHOUSE_DATABASE_URL: await newDatabase('template0'), GATEHOUSE_LISTEN: '127.0.0.1:0' }
  const migrated = await gatehouse(['migrate'], env, main)
  assert.deepEqual([migrated.code, migrated.stderr], [0, ''])
  const bootstrapped = await gatehouse(['bootstrap'], env, main)
  assert.equal(bootstrapped.code, 0, bootstrapped.stderr)
  const { token, account_id } = JSON.parse(bootstrapped.stdout)

  const server = spawn(process.execPath, [main, 'serve'], {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  t.after(() => stop(server, 'SIGKILL'))
  const lines = createInterface({ input: server.stdout })
  const port = await new Promise<number>((resolve) => {
    lines.on('line', (line) => {
      const { msg, address } = JSON.parse(line)
      if (msg === 'listening') resolve(address.port)
    })
  })
  const headers = { authorization: `Bearer ${token}`, 'service-version': '2' }
  const response = await fetch(`http://127.0.0.1:${port}/caller`, { headers })
  assert.equal(response.status, 200)
  assert.equal(((await response.json()) as { account_id: string }).account_id, account_id)
  const ready = await fetch(`http://127.0.0.1:${port}/readyz`)
  assert.equal(ready.status, 200, await ready.text())
  const exited = once(server, 'exit')
  server.kill('SIGTERM')
  assert.deepEqual(await exited, [0, null])
})
