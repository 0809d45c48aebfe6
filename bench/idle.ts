// What an installation costs while nothing happens: `serve`, its PostgreSQL and its NATS, without a node.
//   node bench/idle.ts [--seconds 60] [--statements]
// With --statements, PostgreSQL writes each statement into its log, and the figures of processor time mean nothing.
import { readdir, readFile } from 'node:fs/promises'
import { setTimeout } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { putEnginesOnPath } from '../dev/engines.ts'
import { startNats } from '../dev/nats.ts'
import { one } from '../src/db/pool.ts'
import { sql } from '../src/db/sql.ts'
import { addSigningKey } from '../src/publisher/signing_keys.ts'
import { createWorld } from './harness/world.ts'

const { values } = parseArgs({
  options: { seconds: { type: 'string', default: '60' }, statements: { type: 'boolean', default: false } },
})
const seconds = Number(values.seconds)
/** Until what is done at the start is over. */
const settleMs = 20_000

const counts = new Map<string, number>()
let isCounting = false
function noteStatements(text: string): void {
  if (!isCounting) return
  for (const [, statement = ''] of text.matchAll(
    /LOG: {2}(?:statement|execute [^:]+): ([^\0]*?)(?=\n\S+ \S+ UTC|\n?$)/g,
  )) {
    const shown = statement.replace(/\s+/g, ' ').trim().slice(0, 110)
    counts.set(shown, (counts.get(shown) ?? 0) + 1)
  }
}

putEnginesOnPath()
const world = await createWorld({
  keys: 1_000,
  ...(values.statements && { flags: ['-c', 'log_statement=all', '-c', 'timezone=UTC'], onLog: noteStatements }),
})
const nats = await startNats()
await addSigningKey(world.db, undefined)
const { pid } = await world.gatehouse(nats.controlPlane as Record<string, string>)
await setTimeout(settleMs)
const programs = {
  serve: () => processorMs([pid]),
  PostgreSQL: postgresMs,
  NATS: () => processorMs([nats.pid]),
}
const measure = async () => ({
  processor: await Promise.all(Object.values(programs).map((read) => read())),
  ...(await activity()),
})
const before = await measure()
isCounting = true
await setTimeout(seconds * 1_000)
isCounting = false
const after = await measure()

console.log(`an idle installation, over ${seconds} s; 1 ms per second is 0.1 % of a core`)
for (const [at, name] of Object.keys(programs).entries())
  console.log(
    `  ${name.padEnd(12)} ${perSecond((after.processor[at] ?? 0) - (before.processor[at] ?? 0), 2)} ms per second`,
  )
console.log(`  transactions ${perSecond(after.transactions - before.transactions, 1)} per second`)
console.log(`  connections  ${perSecond(after.sessions - before.sessions, 2)} per second`)
for (const [statement, count] of [...counts].sort(([, a], [, b]) => b - a))
  console.log(`  ${perSecond(count, 2).padStart(6)}  ${statement}`)
await world.end()
await nats.stop()
process.exit(0)

function perSecond(amount: number, digits: number): string {
  return (amount / seconds).toFixed(digits)
}

/** The kernel counts each thread in nanoseconds. */
async function processorMs(pids: readonly number[]): Promise<number> {
  let sum = 0
  for (const process of pids)
    for (const thread of await readdir(`/proc/${process}/task`).catch(() => []))
      sum += Number((await readFile(`/proc/${process}/task/${thread}/schedstat`, 'utf8')).split(' ')[0])
  return sum / 1e6
}

/** The processor time of its sessions, those that have ended included. */
async function postgresMs(): Promise<number> {
  const { pid: parent } = world.postgres
  const fields = (await readFile(`/proc/${parent}/stat`, 'utf8')).split(') ')[1]?.split(' ') ?? []
  return (Number(fields[13]) + Number(fields[14])) * 10 + (await processorMs(await childrenOf(parent)))
}

async function childrenOf(parent: number): Promise<number[]> {
  return (await readFile(`/proc/${parent}/task/${parent}/children`, 'utf8')).trim().split(' ').map(Number)
}

function activity(): Promise<{ transactions: number; sessions: number }> {
  return one(
    world.db,
    sql`
    select sum(xact_commit + xact_rollback)::float8 as transactions, sum(sessions)::float8 as sessions
    from pg_stat_database`,
  )
}
