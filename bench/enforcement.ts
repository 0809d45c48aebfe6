// What an enforced `api` restriction of 100,000 rules costs a request: `npm run bench:enforcement`, `-- <pairs> <seconds>`
import assert from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { promisify } from 'node:util'
import { freePort } from '../dev/ports.ts'
import { startPostgres } from '../dev/postgres.ts'
import { bootstrapAccount } from '../src/commands/accounts/bootstrap.ts'
import { openPool } from '../src/db/pool.ts'
import { createMigratedDatabase } from '../test/harness/environment.ts'

const pairs = Number(process.argv[2] ?? 10)
const seconds = Number(process.argv[3] ?? 2)
const rules = 100_000
const run = promisify(execFile)
const hasWrk = await run('wrk', ['-v']).then(
  () => true,
  (error) => error.code !== 'ENOENT',
)

const postgres = await startPostgres({ flags: ['-c', 'shared_buffers=256MB'] })
const url = await createMigratedDatabase(postgres, 'bench')
const origin = `http://127.0.0.1:${await freePort()}`
const main = new URL('../src/main.ts', import.meta.url).pathname
const server = spawn(process.execPath, [main, 'serve'], {
  stdio: 'inherit',
  env: {
    ...process.env,
    GATEHOUSE_DATABASE_URL: url,
    GATEHOUSE_LISTEN: origin.slice('http://'.length),
    GATEHOUSE_REQUESTS_PER_MINUTE: '0',
    // Without lines to write for each request, its other costs weigh more.
    GATEHOUSE_LOG_LEVEL: 'warn',
  },
})
try {
  while (!(await fetch(`${origin}/readyz`).catch(() => undefined))?.ok)
    await new Promise((done) => setTimeout(done, 50))
  const free = await newToken('free')
  const restricted = await newToken('restricted')
  await restrict(restricted)

  const slices: Record<'free' | 'restricted', Slice[]> = { free: [], restricted: [] }
  await measure(free)
  await measure(restricted)
  for (let pair = 0; pair < pairs; pair++) {
    // Alternating, and neither always first, so that other work of the machine affects both.
    const order = pair % 2 ? (['free', 'restricted'] as const) : (['restricted', 'free'] as const)
    for (const which of order) slices[which].push(await measure(which === 'free' ? free : restricted))
  }
  console.log(
    `GET /caller, 16 connections, ${pairs} pairs of slices of ${seconds} s, load from ${hasWrk ? 'wrk' : 'node'}`,
  )
  for (const [which, measured] of Object.entries(slices)) {
    const rates = summary(measured.map(({ perSecond }) => perSecond))
    const costs = summary(measured.map(({ cpuMicroseconds }) => cpuMicroseconds))
    console.log(`${which}: ${rates} requests/s, ${costs} µs of the process's own CPU time each`)
  }
  const ratios = (of: (slice: Slice) => number) =>
    slices.restricted.map((slice, pair) => of(slice) / of(slices.free[pair] as Slice))
  console.log(
    `requests/s with ${rules} rules enforced to without: ${summary(
      ratios(({ perSecond }) => perSecond),
      3,
    )}`,
  )
  // On a busy machine, this one is more telling.
  console.log(
    `the same by CPU time: ${summary(
      ratios(({ cpuMicroseconds }) => 1 / cpuMicroseconds),
      3,
    )}`,
  )
} finally {
  const ended = once(server, 'exit')
  server.kill()
  await ended
  await postgres.stop()
}

async function newToken(accountName: string): Promise<string> {
  const db = openPool({ url, poolSize: 2, connectTimeoutMs: 10_000, statementTimeoutMs: 10_000 }, () => {})
  const wanted = { accountName, adminName: 'Ada', adminEmail: 'ada@example.com' }
  const { token } = await bootstrapAccount(db, wanted, origin)
  await db.end()
  return token
}

async function restrict(token: string): Promise<void> {
  const call = async (method: string, path: string, body: string, type = 'application/json') => {
    const headers = { Authorization: `Bearer ${token}`, 'Service-Version': '2', 'Content-Type': type }
    const response = await fetch(origin + path, { method, headers, body })
    assert.ok(response.ok, await response.clone().text())
    return (await response.json()) as { id: string; rules: number }
  }
  const { id } = await call('POST', '/ip_policies', '{}')
  const lines = Array.from({ length: rules - 1 }, (_, i) =>
    i % 2 ? `allow 10.${i >> 16}.${(i >> 8) & 255}.${i & 255}` : `deny 2001:db8:0:${(i / 2).toString(16)}::/64`,
  )
  const set = await call('PUT', `/ip_policies/${id}/rules`, ['allow 127.0.0.1', ...lines].join('\n'), 'text/plain')
  assert.equal(set.rules, rules)
  await call('POST', '/ip_restrictions', JSON.stringify({ type: 'api', enforced: true, ip_policy_ids: [id] }))
}

type Slice = { perSecond: number; cpuMicroseconds: number }

async function measure(token: string): Promise<Slice> {
  const before = await cpuSeconds()
  const { stdout } = hasWrk
    ? await run('wrk', [
        ...['-t', '1', '-c', '16', '-d', `${seconds}s`],
        ...['-H', `Authorization: Bearer ${token}`, '-H', 'Service-Version: 2', `${origin}/caller`],
      ])
    : await run(process.execPath, [
        new URL('load.ts', import.meta.url).pathname,
        ...[`${origin}/caller`, token, '16', `${seconds}`],
      ])
  const spent = (await cpuSeconds()) - before
  assert.doesNotMatch(stdout, /Non-2xx/, stdout)
  const requests = Number(/(\d+) requests in/.exec(stdout)?.[1])
  return { perSecond: Number(/Requests\/sec:\s+([\d.]+)/.exec(stdout)?.[1]), cpuMicroseconds: (spent / requests) * 1e6 }
}

async function cpuSeconds(): Promise<number> {
  const text = await (await fetch(`${origin}/metrics`)).text()
  return Number(/^process_cpu_seconds_total ([\d.]+)/m.exec(text)?.[1])
}

/** Median, with the smallest and the largest. */
function summary(values: number[], digits = 0): string {
  const sorted = values.toSorted((a, b) => a - b).map((value) => value.toFixed(digits))
  return `${sorted[sorted.length >> 1]} (${sorted[0]}–${sorted.at(-1)})`
}
