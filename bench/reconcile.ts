// What a comparison of the bucket with the database costs when nothing differs, and how long it holds the event loop up.
//   node bench/reconcile.ts [--accounts 1000] [--edges 100] [--rounds 5]
import { parseArgs } from 'node:util'
import { putEnginesOnPath } from '../dev/engines.ts'
import { startNats } from '../dev/nats.ts'
import { openPool, run } from '../src/db/pool.ts'
import { sql } from '../src/db/sql.ts'
import { defaultChannels } from '../src/distribution/channels.ts'
import { type RecordKey, type RecordKind, recordKinds } from '../src/distribution/records.ts'
import { createSigner, newSigningKey, seal } from '../src/distribution/signature.ts'
import { systemTiming } from '../src/kernel/system_timing.ts'
import { defaultCell } from '../src/operations/placement.ts'
import { bucketServer } from '../src/publisher/bucket/bucket_server.ts'
import { createLiveRecords } from '../src/publisher/bucket/live_records.ts'
import { openNatsSink } from '../src/publisher/bucket/nats_sink.ts'
import { publisherDatabase } from '../src/publisher/postgres.ts'
import { reconcile } from '../src/publisher/reconcile.ts'
import { connectAsControlPlane } from '../test/harness/nats.ts'
import { shown, spreadOf } from './harness/statistics.ts'
import { createWorld } from './harness/world.ts'

const { values } = parseArgs({
  options: {
    accounts: { type: 'string', default: '1000' },
    edges: { type: 'string', default: '100' },
    rounds: { type: 'string', default: '5' },
  },
})
const [accounts, edges, rounds] = [Number(values.accounts), Number(values.edges), Number(values.rounds)]

putEnginesOnPath()
const world = await createWorld({ keys: 10 })
const nats = await startNats()
const ends: (() => unknown)[] = []
const connection = await connectAsControlPlane({ after: (end) => void ends.push(end) }, nats)
const natsSink = await openNatsSink(connection, bucketServer(connection, 1), defaultChannels)
const pool = openPool(
  { url: world.databaseUrl, poolSize: 4, connectTimeoutMs: 60_000, statementTimeoutMs: 600_000 },
  () => {},
)
const database = publisherDatabase(pool, systemTiming)(defaultCell)
const { publicKey, privateKey } = newSigningKey()
const signer = createSigner(publicKey, privateKey)

await run(
  pool,
  sql`
  insert into accounts (id, name) select gen_random_uuid(), 'account ' || n from generate_series(1, ${accounts}) n`,
)
await run(
  pool,
  sql`
  insert into edges (account_id, id, kind)
  select id, gen_random_uuid(), 'https' from accounts, generate_series(1, ${edges}) n where name like 'account %'`,
)
await run(
  pool,
  sql`
  insert into hostports (hostport, account_id, edge_id, position)
  select 'h' || row_number() over () || '.example:443', account_id, id, 0 from edges`,
)
await pool.query({ text: 'analyze' })
const records = await fill()
console.log(`${records} records of ${accounts} accounts`)

const live = createLiveRecords()
const [processor, seconds, blocks] = [[] as number[], [] as number[], [] as number[]]
for (let round = 0; round <= rounds; round++) {
  const comparison = live.beginComparison()
  const longest = longestBlock()
  const [began, before] = [performance.now(), process.cpuUsage()]
  const { healed } = await reconcile(database, natsSink, signer.keyId, Date.now(), new AbortController().signal, {
    live: comparison,
  })
  comparison.end()
  const { user, system } = process.cpuUsage(before)
  const block = await longest()
  if (healed > 0) throw new Error(`${healed} records differ`)
  // The first compiles the code.
  if (round === 0) continue
  processor.push((user + system) / records)
  seconds.push((performance.now() - began) / 1_000)
  blocks.push(block)
}
console.log(`processor time of the process, µs per record: ${shown(spreadOf(processor), 1)}`)
console.log(`seconds: ${shown(spreadOf(seconds), 1)}`)
console.log(`longest that the event loop was held up, ms of its processor time: ${shown(spreadOf(blocks), 0)}`)
for (const end of ends.reverse()) await end()
await pool.end()
await nats.stop()
await world.end()
process.exit(0)

/** In milliseconds of the thread's processor time: what else the machine does, does not count. */
function longestBlock(): () => Promise<number> {
  let [most, before] = [0, process.threadCpuUsage()]
  const look = () => {
    const { user, system } = process.threadCpuUsage(before)
    before = process.threadCpuUsage()
    most = Math.max(most, (user + system) / 1_000)
  }
  const timer = setInterval(look, 1)
  return async () => {
    await new Promise((resolve) => setTimeout(resolve, 20))
    clearInterval(timer)
    return most
  }
}

/** As a publisher leaves it that has sent everything. */
async function fill(): Promise<number> {
  let count = 0
  for (const kind of Object.keys(recordKinds) as RecordKind[])
    for await (const page of database.living(kind)) {
      const compiled = await database.compile(page, Date.now(), {})
      const keys = compiled.map(({ key }): RecordKey => key)
      const sealed = compiled.map(({ key, value }) => seal({ key, generation: 1, value }, signer))
      await natsSink.keep({ progress: seal({ after: 0, settled: 1 }, signer), records: sealed }, keys)
      count += keys.length
    }
  return count
}
