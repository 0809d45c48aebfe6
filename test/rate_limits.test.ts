// Limits per key, and per address for wrong tokens. Elsewhere the tests run without them.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { newToken } from '../src/identity/token.ts'
import type { Client } from './harness/client.ts'
import { gatehouse } from './harness/command.ts'
import { type Account, startControlPlane } from './harness/control_plane.ts'
import { make } from './harness/fixtures.ts'
import { behindProxy, from } from './harness/ip.ts'
import { poll } from './harness/poll.ts'
import { signIn } from './harness/session.ts'

const limit = 30
const env = {
  ...behindProxy,
  GATEHOUSE_REQUESTS_PER_MINUTE: String(limit),
  GATEHOUSE_FAILED_REQUESTS_PER_MINUTE: '20',
}
const plane = await startControlPlane({ after }, { processes: 2, env })
/** Earned back since a moment, through one process. A slow machine earns more. */
const earnedSince = (start: number, perMinute: number) => Math.ceil(((Date.now() - start) * perMinute) / 60_000)

async function burst(count: number, call: (index: number) => Promise<{ status: number }>) {
  const answers = await Promise.all(Array.from({ length: count }, (_, index) => call(index)))
  return (status: number) => answers.filter((answer) => answer.status === status).length
}

test('a key can use its allowance, sees what is left of it, and is then refused until it regains some', async () => {
  const admin = await plane.newAccount()
  const first = await admin('GET', '/caller')
  assert.equal(first.headers.get('ratelimit-policy'), `"key";q=${limit};w=60`)
  assert.equal(first.headers.get('ratelimit'), `"key";r=${limit - 1};t=2`)
  const missing = await admin('GET', '/api_keys/ak_none')
  assert.match(
    missing.headers.get('ratelimit') ?? '',
    /^"key";r=2[89];t=[1-4]$/,
    'a 404 has the headers too, and counts',
  )
  const start = Date.now()
  const counted = await burst(2 * limit, () => admin('POST', '/ip_policies', {}))
  assert.ok(
    counted(201) >= limit - 2 && counted(201) <= limit - 1 + earnedSince(start, limit),
    `${counted(201)} of ${limit}`,
  )
  const refusedAt = Date.now()
  const refused = await poll(
    () => admin('POST', '/ip_policies', {}),
    ({ status }) => status === 429,
  )
  assert.equal(refused.body.error_code, 'ERR_RATE_LIMITED')
  const wait = refused.headers.get('retry-after') ?? ''
  assert.match(wait, /^[12]$/)
  assert.equal(refused.body.details.retry_after_seconds, wait)
  assert.equal(refused.headers.get('ratelimit'), `"key";r=0;t=${wait}`)
  // Like a client that waits for as long as Retry-After says.
  const again = await poll(
    () => admin('GET', '/caller'),
    ({ status }) => status === 200,
  )
  const left = Number(/^"key";r=(\d+);/.exec(again.headers.get('ratelimit') ?? '')?.[1])
  assert.ok(left < earnedSince(refusedAt, limit), `${left} left after the first`)
  const { origin } = plane.processes[0] ?? assert.fail()
  const metrics = await (await fetch(`${origin}/metrics`)).text()
  assert.match(metrics, /^gatehouse_rate_limited_total\{policy="key"\} [1-9]/m)
})

test('two processes let through at most twice the limit', async () => {
  const admin = await plane.newAccount()
  const start = Date.now()
  const counted = await burst(4 * limit, (index) => admin('GET', '/caller', undefined, { process: index % 2 }))
  assert.ok(counted(200) >= 2 * limit, `${counted(200)}`)
  assert.ok(counted(200) <= 2 * (limit + earnedSince(start, limit)), `${counted(200)}`)
  assert.equal(counted(200) + counted(429), 4 * limit)
})

test('many keys of an account together make ten times the requests of one, and another account keeps its own', async () => {
  const [admin, other] = [await plane.newAccount(), await plane.newAccount()]
  const keys: Client[] = []
  for (let made = 0; made < 15; made++)
    keys.push(plane.clientFor((await make(keys.at(-1) ?? admin, '/api_keys')).token))
  const start = Date.now()
  // Within the limit of each key: only the account's can refuse any.
  const calls = Array.from({ length: 15 * (limit - 1) }, (_, index) => (keys[index % 15] as Client)('GET', '/caller'))
  const answers = await Promise.all(calls)
  const allowed = answers.filter(({ status }) => status === 200).length
  assert.ok(allowed >= 10 * limit - 15 && allowed <= 10 * limit + earnedSince(start, 10 * limit), `${allowed}`)
  for (const { status, headers, body } of answers.filter(({ status }) => status !== 200)) {
    assert.equal(status, 429)
    assert.equal(headers.get('ratelimit-policy'), '"account";q=300;w=60')
    assert.equal(headers.get('ratelimit'), `"account";r=0;t=${headers.get('retry-after')}`)
    assert.match(body.msg, /API keys of this account have reached their common limit of 300 requests/)
  }
  assert.equal((await other('GET', '/caller')).status, 200)
})

test("another key is not refused for it, of the same account or another; a session shares its key's limit", async () => {
  const [admin, other] = [await plane.newAccount(), await plane.newAccount()]
  const sibling = plane.clientFor((await make(admin, '/api_keys')).token)
  const browser = await signIn(admin)
  const counted = await burst(2 * limit, (index) => (index % 2 ? admin : browser)('GET', '/caller'))
  assert.ok(counted(429) > 0)
  for (const client of [sibling, other]) assert.equal((await client('GET', '/caller')).status, 200)
})

test('after too many wrong tokens an address gets 429 for wrong ones, and good ones work as before', async () => {
  const admin = await plane.newAccount()
  const [there, neighbor, elsewhere] = [from('2001:db8:1::1'), from('2001:db8:1::2'), from('2001:db8:2::1')]
  const wrong = () => plane.clientFor(newToken())
  const start = Date.now()
  const counted = await burst(60, (index) => wrong()('GET', '/caller', undefined, index % 2 ? there : neighbor))
  assert.ok(counted(401) >= 20 && counted(401) <= 20 + earnedSince(start, 20), `${counted(401)}`)
  const refused = await poll(
    () => wrong()('GET', '/caller', undefined, there),
    ({ status }) => status === 429,
  )
  assert.equal(refused.body.error_code, 'ERR_TOO_MANY_ATTEMPTS')
  assert.match(refused.headers.get('retry-after') ?? '', /^[1-3]$/)
  assert.equal(refused.headers.get('ratelimit-policy'), '"failed-authentication";q=20;w=60')
  assert.equal((await wrong()('GET', '/caller', undefined, elsewhere)).status, 401)
  assert.equal((await admin('GET', '/caller', undefined, there)).status, 200)
  const browser = await signIn(admin, there)
  assert.equal((await browser('GET', '/caller')).status, 200)
  const unheard = { headers: { ...there.headers, authorization: undefined } }
  for (let i = 0; i < 30; i++) assert.equal((await admin('GET', '/caller', undefined, unheard)).status, 401)
  const stale = { headers: { ...unheard.headers, cookie: '__Host-gatehouse_session=gatehouse_session_old' } }
  for (let i = 0; i < 30; i++) assert.equal((await admin('GET', '/caller', undefined, stale)).status, 401)
})

test("with two processes, a key within its limit is never refused for others' failures or traffic from its address", async () => {
  const [good, greedy] = [await plane.newAccount(), await plane.newAccount()]
  const there = from('203.0.113.9')
  const start = Date.now()
  const call = (client: Client, process: number) => client('GET', '/caller', undefined, { ...there, process })
  // In turns, through both: 80 wrong tokens, 120 calls of a key beyond its limit, and 40 of one within it.
  const wrong: number[] = []
  const flood: number[] = []
  const mine: number[] = []
  await Promise.all([
    ...Array.from({ length: 80 }, async (_, index) =>
      wrong.push((await call(plane.clientFor(newToken()), index % 2)).status),
    ),
    ...Array.from({ length: 120 }, async (_, index) => flood.push((await call(greedy, index % 2)).status)),
    ...Array.from({ length: 40 }, async (_, index) => mine.push((await call(good, index % 2)).status)),
  ])
  assert.deepEqual([...new Set(mine)], [200])
  const count = (statuses: number[], status: number) => statuses.filter((each) => each === status).length
  // Each process counts for itself, so the bound is the sum of both.
  assert.ok(count(wrong, 401) >= 40 && count(wrong, 401) <= 2 * (20 + earnedSince(start, 20)), `${count(wrong, 401)}`)
  assert.equal(count(wrong, 401) + count(wrong, 429), 80)
  assert.ok(count(flood, 200) >= 2 * limit, `${count(flood, 200)}`)
  assert.ok(count(flood, 200) <= 2 * (limit + earnedSince(start, limit)), `${count(flood, 200)}`)
  // One failure in one process is not known to the other: a fresh address has its whole allowance there.
  const elsewhere = from('203.0.113.10')
  const spent = await burst(25, () =>
    plane.clientFor(newToken())('GET', '/caller', undefined, { ...elsewhere, process: 0 }),
  )
  assert.ok(spent(429) > 0)
  const fresh = await plane.clientFor(newToken())('GET', '/caller', undefined, { ...elsewhere, process: 1 })
  assert.equal(fresh.status, 401)
  assert.equal((await call(good, 0)).status, 200)
})

test('the operator sets, lists and clears the limit of an account, and it holds from the next request on', async () => {
  const [admin, other] = [await plane.newAccount(), await plane.newAccount()]
  const run = (...args: string[]) => gatehouse(['rate-limits', ...args], { GATEHOUSE_DATABASE_URL: plane.databaseUrl })
  const policyOf = async (account: Account) => (await account('GET', '/caller')).headers.get('ratelimit-policy')
  const set = await run('set', '--account', admin.accountId, '--requests-per-minute', '500')
  assert.equal(set.code, 0, set.stderr)
  assert.equal(await policyOf(admin), '"key";q=500;w=60')
  assert.equal(await policyOf(other), `"key";q=${limit};w=60`)
  assert.equal(JSON.parse((await run('list')).stdout).requests_per_minute, 500)
  const { body } = await admin('GET', `/audit_events?operation=server.set_rate_limit`)
  assert.deepEqual(body.audit_events[0].after, { requests_per_minute: 500 })
  await run('set', '--account', admin.accountId, '--requests-per-minute', '0')
  assert.equal(await policyOf(admin), null)
  await run('clear', '--account', admin.accountId)
  assert.equal(await policyOf(admin), `"key";q=${limit};w=60`)
  for (const [args, told] of [
    [['set', '--account', admin.accountId], /--requests-per-minute is required/],
    [
      ['set', '--account', admin.accountId, '--requests-per-minute', 'many'],
      /--requests-per-minute must be a whole number/,
    ],
    [['clear', '--account', 'no-account'], /there is no account "no-account"/],
    [['raise'], /usage: gatehouse rate-limits/],
  ] as const) {
    const { code, stderr } = await run(...args)
    assert.notEqual(code, 0)
    assert.match(stderr, told)
  }
})
