// What each operation of the API asks of PostgreSQL: every one is called, what it sends is counted on the wire, and compared
// with round_trips/counts.json. More than that fails. docs/contribute/testing.md says how to change the table.
import assert from 'node:assert/strict'
import { readFile, writeFile } from 'node:fs/promises'
import { after, test } from 'node:test'
import { asAppRole } from '../dev/app_role.ts'
import type { Route } from '../src/http/route.ts'
import { routes } from '../src/resources/routes.ts'
import type { Answer } from './harness/client.ts'
import { newDatabase, startControlPlane } from './harness/control_plane.ts'
import { expectations, writeTo } from './isolation/expectations.ts'
import { callOf } from './isolation/matrix.ts'
import { type Counts, messageReader, startCounter } from './round_trips/counter.ts'

const table = new URL('round_trips/counts.json', import.meta.url)
const databaseUrl = await newDatabase()
const counter = await startCounter({ after }, asAppRole(databaseUrl))
const plane = await startControlPlane(
  { after },
  { databaseUrl, env: { GATEHOUSE_DATABASE_URL: counter.url, GATEHOUSE_TRUSTED_PROXIES: '127.0.0.1' } },
)
writeTo(plane.db)
const admin = await plane.newAccount()

/** What was sent while one request was answered. Other work of the process may fall into it, and only adds. */
async function countsOf(work: () => Promise<Answer>, status: number, operation: string): Promise<Counts> {
  const before = counter.counts()
  const answer = await work()
  const now = counter.counts()
  assert.equal(answer.status, status, `${operation}: ${answer.text}`)
  return { statements: now.statements - before.statements, round_trips: now.round_trips - before.round_trips }
}

const fewer = (a: Counts, b: Counts): Counts => ({
  statements: Math.min(a.statements, b.statements),
  round_trips: Math.min(a.round_trips, b.round_trips),
})
const isMore = (a: Counts, b: Counts): boolean => a.statements > b.statements || a.round_trips > b.round_trips

/**
 * Called until it is within the limit. What else the process does is not there each time, but on a busy machine often: only
 * an operation that is never within its limit has grown.
 */
async function count(route: Route, limit: Counts | undefined): Promise<Counts> {
  const {
    path,
    body,
    admin: status,
  } = expectations[route.operation] ?? assert.fail(`${route.operation} is not expected`)
  const call = callOf(route, admin)
  let least: Counts = { statements: Number.POSITIVE_INFINITY, round_trips: Number.POSITIVE_INFINITY }
  let ids = (await path?.(admin)) ?? {}
  for (let attempt = 0; attempt < (limit ? 30 : 8); attempt++) {
    if (attempt > 0 && route.method !== 'GET') ids = (await path?.(admin)) ?? {}
    const sent = route.body && (await body?.(admin))
    least = fewer(least, await countsOf(() => call(ids, sent), status, route.operation))
    if (limit && !isMore(least, limit)) break
  }
  return least
}

const shown = ({ statements, round_trips }: Counts) => `${statements} statements in ${round_trips} round trips`

test('no operation sends more statements, or waits for them more often, than the table says', async () => {
  const isWriting = process.env.WRITE_COUNTS === '1'
  const limits: Record<string, Counts> = isWriting ? {} : JSON.parse(await readFile(table, 'utf8'))
  const counts: Record<string, Counts> = {}
  // Last, because other changes of an account with access tests are judged by them.
  const isOfTests = ({ operation }: Route) => operation.startsWith('access_tests.')
  const inOrder = [...routes.filter((route) => !isOfTests(route)), ...routes.filter(isOfTests)]
  for (const route of inOrder) counts[route.operation] = await count(route, limits[route.operation])
  if (isWriting) return writeFile(table, `${JSON.stringify(counts, null, 2)}\n`)
  const grown = Object.entries(counts).flatMap(([operation, now]) => {
    const limit = limits[operation]
    if (!limit) return `${operation} is not in the table: ${shown(now)}`
    return isMore(now, limit) ? `${operation} took ${shown(limit)}, and now takes ${shown(now)}` : []
  })
  const gone = Object.keys(limits).filter((operation) => !(operation in counts))
  const more = [...grown, ...gone.map((operation) => `${operation} is in the table, but is no operation`)]
  const advice =
    "See 'Round trips' in docs/contribute/testing.md: save the round trip, or change the table and say why."
  assert.ok(more.length === 0, [...more, advice].join('\n'))
})

test('messages are counted however they are cut into pieces', () => {
  const message = (kind: string, text = '') => {
    const head = Buffer.alloc(5)
    head.write(kind, 'latin1')
    head.writeInt32BE(4 + text.length, 1)
    return Buffer.concat([head, Buffer.from(text)])
  }
  const startup = message('x', 'user').subarray(1)
  const bytes = Buffer.concat([
    startup,
    message('P', 'SQE'),
    message('B'),
    message('E'),
    message('S'),
    message('Q', 'S'),
  ])
  for (const size of [1, 3, 7, bytes.length]) {
    const kinds: string[] = []
    const read = messageReader((kind) => kinds.push(kind))
    for (let at = 0; at < bytes.length; at += size) read(bytes.subarray(at, at + size))
    assert.deepEqual(kinds, ['P', 'B', 'E', 'S', 'Q'], `in pieces of ${size}`)
  }
})
