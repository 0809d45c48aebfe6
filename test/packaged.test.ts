// The command as it is installed: compiled JavaScript, run by its own first line; and as the production stage of
// deploy/Dockerfile makes it, without Docker: its steps in an empty folder, and what they make run by a user without
// rights on a read-only root file system, from an empty database to a key that curl creates.
import assert from 'node:assert/strict'
import { execFile, spawn, spawnSync } from 'node:child_process'
import { once as onceEvent } from 'node:events'
import { chmod, cp, mkdir, mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { version } from '../src/config/version.ts'
import { builtMain as main } from './harness/build.ts'
import { gatehouse as command } from './harness/command.ts'
import { newDatabase, stop } from './harness/control_plane.ts'

const root = new URL('..', import.meta.url).pathname
const run = promisify(execFile)

/** The COPY and RUN lines of one stage. */
async function stepsOf(stage: string): Promise<string[]> {
  const stages = (await readFile(join(root, 'deploy/Dockerfile'), 'utf8')).split(/^FROM /m)
  const found = stages.find((text) => text.split('\n')[0]?.endsWith(` AS ${stage}`)) ?? assert.fail(stage)
  return found.split('\n').filter((line) => /^(COPY|RUN) /.test(line))
}

/** Does what Docker would, in a folder. What comes from the build stage comes from the repository's own build. */
async function perform(steps: readonly string[], folder: string): Promise<void> {
  for (const step of steps) {
    const [verb, ...words] = step.split(' ')
    if (verb === 'RUN') {
      await run('sh', ['-c', words.join(' ')], { cwd: folder })
      continue
    }
    const sources = words.filter((word) => !word.startsWith('--from=')).map((word) => word.replace(/^\/build\//, ''))
    const target = sources.pop() ?? assert.fail(step)
    for (const source of sources) {
      const to = target.endsWith('/') ? join(folder, target, basename(source)) : join(folder, target)
      await mkdir(dirname(to), { recursive: true })
      await cp(join(root, source), to, { recursive: true })
    }
  }
}

/** The command line that runs a program without privileges, with every file system that was there read-only. */
const shutAway = (program: string[]): string[] => [
  'unshare',
  ...(process.getuid?.() === 0 ? [] : ['--map-root-user']),
  '--mount',
  '--propagation=private',
  'sh',
  '-euc',
  // Not what the kernel itself offers, which is no disk.
  `awk '$3 !~ /^(proc|sysfs|devpts|mqueue|cgroup2?|devtmpfs)$/ && $2 !~ /^[/](proc|sys|dev)/ { print $2 }' /proc/mounts |
     while read -r mounted; do mount -o remount,bind,ro "$mounted"; done
   exec setpriv --reuid=65534 --regid=65534 --clear-groups --no-new-privs "$@"`,
  'sh',
  ...program,
]

test('the built command migrates, bootstraps, serves a request and ends', async (t) => {
  // By its own name, as npm links it: it must be executable and say what runs it.
  const { stdout } = await run(main, ['version'])
  assert.equal(stdout, `${version}\n`)

  const env = { GATEHOUSE_DATABASE_URL: await newDatabase('template0'), GATEHOUSE_LISTEN: '127.0.0.1:0' }
  const migrated = await command(['migrate'], env, main)
  assert.deepEqual([migrated.code, migrated.stderr], [0, ''])
  const bootstrapped = await command(['bootstrap'], env, main)
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
  const exited = onceEvent(server, 'exit')
  server.kill('SIGTERM')
  assert.deepEqual(await exited, [0, null])
})

test("the image's contents run unprivileged on a read-only file system: migrate, bootstrap, serve, create a key", async (t) => {
  const [tool = '', ...check] = shutAway(['sh', '-c', 'id -u; ! touch /tmp/gatehouse-writable 2>/dev/null'])
  const possible = spawnSync(tool, check, { encoding: 'utf8' })
  if (possible.status !== 0) return t.skip(`cannot create a read-only file system here: ${possible.stderr.trim()}`)
  assert.equal(possible.stdout, '65534\n')
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-packaged-'))
  t.after(() => rm(folder, { recursive: true }))
  await chmod(folder, 0o755)
  await perform(await stepsOf('production'), folder)

  const env = {
    PATH: process.env.PATH,
    GATEHOUSE_DATABASE_URL: await newDatabase('template0'),
    GATEHOUSE_LISTEN: '127.0.0.1:0',
  }
  const gatehouse = (...args: string[]) => shutAway([process.execPath, join(folder, 'dist/main.js'), ...args])
  const once = async (...args: string[]) => {
    const [program = '', ...rest] = gatehouse(...args)
    return (await run(program, rest, { env, cwd: folder })).stdout
  }
  await once('migrate')
  const { token } = JSON.parse(await once('bootstrap'))

  const [program = '', ...rest] = gatehouse('serve')
  const server = spawn(program, rest, { env, cwd: folder, stdio: ['ignore', 'pipe', 'inherit'] })
  t.after(() => stop(server, 'SIGKILL'))
  const port = await new Promise<number>((resolve, reject) => {
    server.once('exit', (code) => reject(new Error(`serve ended with ${code}`)))
    createInterface({ input: server.stdout }).on('line', (line) => {
      const { msg, address } = JSON.parse(line)
      if (msg === 'listening') resolve(address.port)
    })
  })
  const curl = async (path: string, ...args: string[]) =>
    (await run('curl', ['-sS', '--fail-with-body', ...args, `http://127.0.0.1:${port}${path}`])).stdout
  const headers = ['Service-Version: 2', `Authorization: Bearer ${token}`, 'Content-Type: application/json']
  const created = JSON.parse(
    await curl('/api_keys', ...headers.flatMap((line) => ['-H', line]), '-d', '{"description": "packaged"}'),
  )
  assert.match(created.token, /^gatehouse_/)
  assert.equal(created.description, 'packaged')
  assert.equal(JSON.parse(await curl('/readyz')).status, 'ready')
  // What is not compiled must have come along, too.
  for (const path of ['/docs/', '/docs/reference/swagger-ui-bundle.js', '/openapi.json', '/llms.txt', '/dashboard/'])
    await curl(path, '-o', '/dev/null')
  await stop(server)
  assert.equal(server.exitCode, 0)
})
