// `npm run dev`, as the first thing that anyone does with it, and what it must not leave behind.
import assert from 'node:assert/strict'
import { type ChildProcess, execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { connect } from 'node:net'
import { createInterface } from 'node:readline'
import { type TestContext, test } from 'node:test'
import { freePortsFrom } from '../dev/ports.ts'
import { loadScaledTimeout } from './harness/load_scaled_timeout.ts'
import { poll } from './harness/poll.ts'

const root = new URL('..', import.meta.url).pathname

function living(): { pid: number; parent: number }[] {
  return execFileSync('ps', ['-A', '-o', 'pid=,ppid=,stat='], { encoding: 'utf8' })
    .trim()
    .split('\n')
    .map((row) => row.trim().split(/\s+/))
    .filter(([, , state]) => !state?.startsWith('Z'))
    .map(([pid, parent]) => ({ pid: Number(pid), parent: Number(parent) }))
}

/** The process and all its descendants. */
function family(ancestor: number): number[] {
  const [rows, found] = [living(), [ancestor]]
  // Grows while it is walked, until no one is left to add.
  for (const member of found) found.push(...rows.filter(({ parent }) => parent === member).map(({ pid }) => pid))
  return found
}

const commandOf = (pid: number) =>
  spawnSync('ps', ['-p', String(pid), '-o', 'args='], { encoding: 'utf8' }).stdout.trim()

/** Everything that it has started, which must be running, and how to see that all of it is gone. */
function startedBy(npm: ChildProcess, t: TestContext, parts: readonly RegExp[]) {
  const started = family(npm.pid ?? 0)
  const leftPids = () => {
    const alive = new Set(living().map(({ pid }) => pid))
    return started.filter((pid) => alive.has(pid))
  }
  t.after(() => {
    for (const pid of leftPids()) process.kill(pid, 'SIGKILL')
  })
  const commands = started.map(commandOf)
  for (const part of parts)
    assert.ok(
      commands.some((command) => part.test(command)),
      `${part} in\n${commands.join('\n')}`,
    )
  const dataDir = /postgres -D (\S+)/.exec(commands.join('\n'))?.[1] ?? assert.fail('no PostgreSQL')
  return {
    pidOf: (command: string) => started.find((pid) => commandOf(pid).startsWith(command)) ?? assert.fail(command),
    async assertGone() {
      await poll(
        () => leftPids().map(commandOf),
        (left) => left.length === 0,
      )
      await poll(
        () => existsSync(dataDir),
        (exists) => !exists,
      )
    },
  }
}

for (const signal of ['SIGTERM', 'SIGKILL'] as const)
  test(`npm run dev prints one JSON line, serves, and ends with everything it started when npm gets ${signal}`, async (t) => {
    const began = Date.now()
    const npm = spawn('npm', ['run', '--silent', 'dev', '--', '--json'], {
      cwd: root,
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    t.after(() => npm.kill('SIGTERM'))
    const lines: string[] = []
    const output = createInterface({ input: npm.stdout })
    const { base_url, token, account_id } = await new Promise<Record<string, string>>((resolve) =>
      output.on('line', (line) => {
        lines.push(line)
        if (lines.length === 1) resolve(JSON.parse(line))
      }),
    )
    assert.ok(Date.now() - began < loadScaledTimeout(30_000), `it took ${Date.now() - began} ms`)
    const headers = { authorization: `Bearer ${token}`, 'service-version': '2' }
    const response = await fetch(`${base_url}/caller`, { headers })
    assert.equal(((await response.json()) as { account_id: string }).account_id, account_id)
    assert.equal((await fetch(`${base_url}/readyz`)).status, 200)

    const { assertGone } = startedBy(npm, t, [/main\.ts serve/, /postgres -D/, /dev\/main\.ts/])
    npm.kill(signal)
    await assertGone()
    assert.equal(lines.length, 1)
  })

test('npm run dev -- --json --edge --accounts 2 gives two accounts and the ports of an edge that serves them, with a quiet log too, and leaves nothing behind when it is killed itself', async (t) => {
  const npm = spawn('npm', ['run', '--silent', 'dev', '--', '--json', '--edge', '--accounts', '2'], {
    cwd: root,
    env: { ...process.env, GATEHOUSE_LOG_LEVEL: 'warn' },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  t.after(() => npm.kill('SIGTERM'))
  const [line] = await once(createInterface({ input: npm.stdout }), 'line')
  const { base_url, token, account_id, accounts, https_port, tcp_ports, upstream_port } = JSON.parse(line)
  assert.deepEqual(accounts[0], { account_id, token })
  assert.equal(accounts.length, 2)
  const callers = await Promise.all(
    accounts.map(async (account: { token: string }) => {
      const headers = { authorization: `Bearer ${account.token}`, 'service-version': '2' }
      return ((await (await fetch(`${base_url}/caller`, { headers })).json()) as { account_id: string }).account_id
    }),
  )
  assert.deepEqual(
    callers,
    accounts.map((account: { account_id: string }) => account.account_id),
  )
  assert.equal(new Set(callers).size, 2)

  const answer = await fetch(`http://127.0.0.1:${upstream_port}/`)
  assert.ok('host' in ((await answer.json()) as object))
  const [first, last] = tcp_ports
  assert.ok(last > first)
  for (const port of [https_port, first, last]) {
    const socket = connect(port, '127.0.0.1')
    // The first port has no edge, so HAProxy may reset the connection before we learn that it was made.
    const refused = await once(socket, 'connect').catch(({ code }) => code !== 'ECONNRESET')
    assert.notEqual(refused, true, `nothing listens on ${port}`)
    socket.destroy()
  }
  // Clients that leave before they have read the example's greeting.
  for (let client = 0; client < 100; client++) {
    const socket = connect(last, '127.0.0.1')
    await once(socket, 'connect')
    socket.resetAndDestroy()
  }

  const parts = [/main\.ts serve/, /main\.ts edge/, /postgres -D/, /nats-server/, /haproxy/]
  const { pidOf, assertGone } = startedBy(npm, t, parts)
  process.kill(pidOf('node dev/main.ts'), 'SIGKILL')
  await assertGone()
})

test('ports for TCP edges are not given to another before they are bound', async () => {
  const [first, second] = [await freePortsFrom(20_001, 20), await freePortsFrom(20_001, 20)]
  assert.ok(second >= first + 20, `${first} and ${second}`)
})

test('npm run dev rejects a malformed number of accounts', () => {
  for (const accounts of ['0', 'two', '100'])
    assert.equal(spawnSync(process.execPath, ['dev/main.ts', '--accounts', accounts], { cwd: root }).status, 2)
})

test('a program that started its own PostgreSQL keeps its exit code', () => {
  const program = "await import('./dev/postgres.ts'); process.exitCode = 3"
  assert.equal(spawnSync(process.execPath, ['--input-type=module', '-e', program], { cwd: root }).status, 3)
})
