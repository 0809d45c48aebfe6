import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { openRecordLog } from '../../src/agent/disk/record_log.ts'
import { entriesInForce } from '../../src/agent/haproxy/process/runtime.ts'
import type { ProxySettings } from '../../src/agent/haproxy/settings.ts'
import { many } from '../../src/db/pool.ts'
import { sql } from '../../src/db/sql.ts'
import { kindOf, type PolicyRecord, type RecordKey } from '../../src/distribution/records.ts'
import { type IdPrefix, toId, type Uuid } from '../../src/kernel/ids.ts'
import { defaultCell } from '../../src/operations/placement.ts'
import { compileRecords } from '../../src/publisher/records/compile.ts'
import { dial, newGuardedEdge } from '../agent/live_harness.ts'
import type { Installation } from '../harness/edge.ts'
import { pause, poll } from '../harness/poll.ts'
import type { DiskFault } from './child.ts'
import type { FaultyNode } from './node.ts'

const sources = ['127.0.0.2', '127.0.0.3', '127.0.0.4']
const always = '127.0.0.5'
const never = '127.0.0.6'
/** So many that the policy comes in pieces. */
const filler = Array.from({ length: 5_000 }, (_, index) => `allow 10.${index >> 8}.${index & 255}.0/25`)

type Guarded = { port: number; policyId: string; isLarge: boolean; allowed: Set<string> }
type World = { installation: Installation; node: FaultyNode; guarded: Guarded[]; upstreamPort: number }

/** One operation of the disk fails, some do, or all do for a while. */
const faultKinds = ['one', 'some', 'full'] as const
/** Which operation from now on is the first to fail. A change takes about this many. */
const firstOf = 14
const restartEvery = 20
const compareEvery = 25

export type Outcome = {
  rounds: number
  failures: ReadonlyMap<string, number>
  faults: string[]
  traffic: number
  restarts: number
}

/**
 * Changes policies and edges while writes of the node fail, each in turn. The moment the node says that a change is applied,
 * it has to be in force; after the fault, the node has to have what the database has.
 */
export async function runRounds(
  installation: Installation,
  { node, upstreamPort }: Pick<World, 'node' | 'upstreamPort'>,
  rounds: number,
): Promise<Outcome> {
  const world: World = { installation, node, guarded: [], upstreamPort }
  const { first } = installation.tcpPorts
  for (const index of [0, 1, 2]) {
    const { port, policyId } = await newGuardedEdge(installation.admin, first + index, upstreamPort, `allow ${always}`)
    world.guarded.push({ port, policyId: `${policyId}`, isLarge: index === 2, allowed: new Set([always]) })
  }
  const faults: string[] = []
  const traffic = watchTraffic(world, faults)
  let restarts = 0
  for (let round = 0; round < rounds && faults.length < 20; round++) {
    try {
      if (round % restartEvery === restartEvery - 1) {
        await restart(world, round)
        restarts++
      }
      await playRound(world, round)
      if (round % compareEvery === compareEvery - 1 || round === rounds - 1) await compare(world)
    } catch (error) {
      faults.push(`round ${round}: ${(error as Error).message}`)
    }
  }
  return { rounds, failures: node.failed, faults, traffic: await traffic.stop(), restarts }
}

function faultOf(round: number): DiskFault {
  const kind = faultKinds[round % faultKinds.length]
  if (kind === 'full') return { skip: 0, count: 10_000, kinds: ['open', 'write'] }
  return { skip: Math.floor(round / faultKinds.length) % firstOf, count: kind === 'some' ? 4 : 1 }
}

async function playRound(world: World, round: number): Promise<void> {
  const { node } = world
  node.fail(faultOf(round))
  const healing = pause(60 + (round % 5) * 30).then(node.heal)
  const changed = round % 4 === 3 ? await moveEdge(world) : await changeRules(world, round)
  const { generation, check } = changed
  // As tight as can be: what is said to be applied has to be in force at once.
  await poll(
    () => node.current(),
    ({ applied, refused }) => applied >= generation && !refused.generations.includes(generation),
    { everyMs: 1, withinSeconds: 20 },
  )
  const wrong = await check()
  if (wrong) throw new Error(`generation ${generation} is said to be applied, but ${wrong}`)
  await healing
}

async function changeRules({ installation, guarded }: World, round: number) {
  const policy = guarded[round % guarded.length] as Guarded
  const source = sources[Math.floor(round / guarded.length) % sources.length] as string
  if (!policy.allowed.delete(source)) policy.allowed.add(source)
  const rules = [...(policy.isLarge ? filler : []), ...[...policy.allowed].map((each) => `allow ${each}`)]
  const { status, headers, text } = await installation.admin(
    'PUT',
    `/ip_policies/${policy.policyId}/rules?confirm=true`,
    undefined,
    {
      rawBody: rules.join('\n'),
      contentType: 'text/plain',
    },
  )
  if (status !== 200) throw new Error(text)
  return { generation: Number(headers.get('service-generation')), check: () => wrongDecision(policy, [source, never]) }
}

async function wrongDecision({ port, allowed }: Guarded, asked: readonly string[]): Promise<string | undefined> {
  for (const source of asked) {
    const answer = await dial(port, source)
    const wanted = allowed.has(source) ? 'hello' : undefined
    if (answer !== wanted) return `${source} gets ${answer} at port ${port} instead of ${wanted}`
  }
  return undefined
}

let moving: { id: string; policyId: string } | undefined
/** A fourth edge comes and goes. */
async function moveEdge({ installation: { admin, tcpPorts }, guarded, upstreamPort }: World) {
  const port = tcpPorts.first + 3
  const former = moving
  if (former) {
    moving = undefined
    const { headers } = await admin('DELETE', `/edges/tcp/${former.id}`)
    const check = async () => ((await dial(port, always)) ? 'a deleted edge is served' : undefined)
    return { generation: Number(headers.get('service-generation')), check }
  }
  const backend = await admin('POST', '/backends/static', { address: `localhost:${upstreamPort}` })
  const { policyId } = guarded[0] as Guarded
  const { headers, body, text, status } = await admin('POST', '/edges/tcp', {
    hostports: [`moving.example:${port}`],
    backend: { backend_id: backend.body.id },
    ip_restriction: { ip_policy_ids: [policyId] },
  })
  if (status !== 201) throw new Error(text)
  moving = { id: body.id, policyId }
  const check = async () => ((await dial(port, never)) ? 'a new edge lets everyone in' : undefined)
  return { generation: Number(headers.get('service-generation')), check }
}

/** The disk fails while the agent starts, too. What supervises it starts it again. HAProxy goes on. */
async function restart({ node }: World, round: number): Promise<void> {
  const turn = Math.floor(round / restartEvery)
  await node.leave(turn % 2 === 0 ? 'SIGHUP' : 'SIGKILL')
  await node.lengthenLog()
  if (!(await node.start({ skip: turn % firstOf, count: 2 }))) await poll(() => node.start())
}

/** All decisions, all records and what HAProxy has, against the database. */
async function compare({ installation: { db }, node, guarded }: World): Promise<void> {
  for (const each of guarded) {
    const wrong = await wrongDecision(each, [...sources, always, never])
    if (wrong) throw new Error(wrong)
  }
  const rows = await many<{ kind: string; prefix: IdPrefix; account_id: Uuid; id: Uuid }>(
    db,
    sql`
    select 'tcp' as kind, 'edgtcp' as prefix, account_id, id from edges
    union all select 'backend', 'bkdst', account_id, id from backends
    union all select 'policy', 'ipp', account_id, id from ip_policies`,
  )
  const changed = rows.map(({ kind, prefix, account_id, id }) => ({
    key: `${kind}.${toId(prefix, id)}` as RecordKey,
    accountId: account_id,
  }))
  const wanted = new Map(
    (await compileRecords(db, defaultCell, changed, Date.now())).map(({ key, value }) => [key, value]),
  )
  const log = await openRecordLog(node.folder)
  await log.close()
  const isCompared = (key: RecordKey) => ['tcp', 'backend', 'policy'].includes(kindOf(key))
  const found = new Map([...log.records].filter(([key, { value }]) => value !== null && isCompared(key)))
  const essence = (value: unknown) => (value as PolicyRecord).hash ?? value
  for (const [key, value] of wanted)
    if (!isDeepStrictEqual(essence(found.get(key)?.value), essence(value)))
      throw new Error(`${key} differs from the database`)
  if (found.size !== wanted.size) throw new Error(`${found.size} records instead of ${wanted.size}`)
  const folder = join(node.folder, 'haproxy')
  const settings = { folder, runtimeSocket: join(folder, 'runtime.sock') } as ProxySettings
  for await (const [id, value] of entriesInForce(settings, 'policy')) {
    const record = wanted.get(`policy.${id}`) as PolicyRecord
    if (!value.startsWith(record?.hash)) throw new Error(`HAProxy has ${value} for the policy ${id}`)
  }
}

/** Requests that must succeed, and others that must not, all the time. */
function watchTraffic({ guarded: [edge] }: World, faults: string[]) {
  let isOver = false
  const running = (async () => {
    let count = 0
    for (; !isOver; count++) {
      const wrong = edge && (await wrongDecision(edge, [always, never]))
      if (wrong) faults.push(`meanwhile ${wrong}`)
      await pause(20)
    }
    return count
  })()
  return {
    async stop(): Promise<number> {
      isOver = true
      return running
    },
  }
}
