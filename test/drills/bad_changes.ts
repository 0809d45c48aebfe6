// `npm run drill -- bad-changes <judge> <late seconds> <simulated>`: 24 bad changes of 12 kinds reach one node of three and are
// taken back; with `off` as the judge they show what they do everywhere. One ends HAProxy so many seconds after it was applied,
// and is watched for half a minute longer. So many simulated nodes are in the later wave as well.
import assert from 'node:assert/strict'
import { loadavg } from 'node:os'
import { join } from 'node:path'
import { ask } from '../../src/agent/haproxy/process/runtime.ts'

import { setThresholds } from '../../src/commands/cells/thresholds.ts'
import { many, one } from '../../src/db/pool.ts'
import { sql } from '../../src/db/sql.ts'
import type { RecordKey } from '../../src/distribution/records.ts'
import { defaultCell } from '../../src/operations/placement.ts'
import { openRollouts, RolloutFault, resumeRollout, type StoredRollout } from '../../src/operations/rollouts.ts'
import { goesThroughWaves } from '../../src/publisher/waves/rollout.ts'
import { get } from '../agent/http_harness.ts'
import { type BadChange, badChanges, markerPath, newTenantOf, type Owner } from '../fleet/bad_changes.ts'
import { type Seen, startApplications, startVisitors } from '../fleet/honest_traffic.ts'
import { joinSimulated, startSimulated } from '../fleet/simulated.ts'
import { startTwoWaves } from '../fleet/two_waves.ts'
import type { Scope } from '../harness/control_plane.ts'
import { drill } from '../harness/drill.ts'
import { pause, poll } from '../harness/poll.ts'
import { statusOf } from '../upgrade/installation.ts'

const isJudged = process.argv[2] !== 'off'
const [lateSeconds = 10, simulatedCount = 0] = process.argv.slice(3).map(Number)
const soakSeconds = 30
const atOnce = 8
/** What follows is compared with the minute before the change. */
const warmUpMs = 60_000
/** A backend that hangs is noticed when its requests time out. */
const longestMs = 120_000
const [haltGoal, returnGoal] = [10, 2]

type Outcome = {
  change: BadChange
  isStopped: boolean
  signal: string
  toHalt: number | undefined
  toReturn: number | undefined
  failedElsewhere: number
}
type Waves = Awaited<ReturnType<typeof startTwoWaves>>
type Node = Awaited<ReturnType<Waves['startNode']>>

/** The certificate that nodes start with is for one label. */
const hostOf = (index: number, isWildcard = false): string => `${isWildcard ? 'app.' : ''}t${index}.example`

/** As if there were no judge: each rollout goes on at once. */
async function releaseEverything({ fleet }: Waves, scope: Scope): Promise<void> {
  const off = { halt_addresses: null, halt_addresses_percent: null, halt_errors_percent: null }
  await setThresholds(fleet.db, defaultCell.name, off)
  let isOver = false
  const releasing = (async () => {
    while (!isOver) {
      await pause(100)
      const open = await openRollouts(fleet.db, defaultCell.id)
      const why = { reason: 'a drill without a judge', isUrgent: true, isForced: true }
      await Promise.all(
        open
          .filter(({ is_forced }) => !is_forced)
          .map(({ id }) => resumeRollout(fleet.db, id, why).catch(unlessDecided)),
      )
    }
  })()
  scope.after(async () => {
    isOver = true
    await releasing
  })
}
function unlessDecided(error: unknown): void {
  if (!(error instanceof RolloutFault)) throw error
}

async function observe(
  waves: Waves,
  nodes: readonly Node[],
  { change, owner, prepared }: { change: BadChange; owner: Owner; prepared: unknown },
): Promise<Outcome> {
  const seen: Seen[] = []
  const stop = startVisitors(nodes, { host: owner.host, path: change.path, patienceMs: change.patienceMs }, seen)
  await pause(warmUpMs)
  const began = Date.now()
  const answer = await change.make(owner, prepared)
  if (change.isRefused) assert.ok(answer.status >= 400 && answer.status < 500, answer.text)
  else assert.ok(answer.status < 300, `${change.kind}, ${change.name}: ${answer.text}`)
  const killed =
    change.endsProxyAfterSeconds === undefined ? [] : endProxies(nodes, owner, change.endsProxyAfterSeconds)
  const found = change.isRefused ? undefined : await untilDecided(waves, owner)
  // Long enough to see whether nodes are as they were.
  await pause(change.isRefused || isJudged ? 5_000 : 10_000)
  await stop()
  const bad = seen.filter(({ isGood, startedAt }) => !isGood && startedAt >= began)
  const onCanary = bad.filter(({ node }) => node === 'canary')
  const kills = (await Promise.all(killed)).filter((at) => at !== undefined)
  const haltedAt = found?.state === 'halted' ? Date.parse(found.moved_at) : undefined
  const first = Math.min(...onCanary.map(({ endedAt }) => endedAt), ...kills)
  const last = Math.max(...onCanary.map(({ startedAt }) => startedAt))
  const outcome = {
    change,
    isStopped: change.isRefused === true || haltedAt !== undefined,
    signal: change.isRefused ? `${answer.body.error_code}` : (found?.evidence?.[0]?.signal ?? '-'),
    toHalt: haltedAt === undefined ? undefined : (haltedAt - first) / 1_000,
    toReturn: haltedAt === undefined ? undefined : Math.max(0, last - haltedAt) / 1_000,
    failedElsewhere: bad.length - onCanary.length + Math.max(0, kills.length - 1),
  }
  show(outcome)
  return outcome
}

/** Halted, or on every node. */
const untilDecided = async ({ rollouts }: Waves, owner: Owner): Promise<StoredRollout | undefined> =>
  poll(
    async () => {
      const all = await rollouts(owner)
      return all.find(({ state }) => state === 'halted') ?? (all.every(({ ended_at }) => ended_at) ? all[0] : undefined)
    },
    (found) => found !== undefined,
    { withinSeconds: longestMs / 1_000 + lateSeconds, everyMs: 100 },
  )

/** When each was killed. Undefined for one that never had the change. */
const endProxies = (nodes: readonly Node[], { host }: Owner, afterSeconds: number): Promise<number | undefined>[] =>
  nodes.map(async ({ httpsPort, folder }) => {
    const until = Date.now() + (afterSeconds + 60) * 1_000
    while ((await bodyOf(httpsPort, host)) !== 'marker') {
      if (Date.now() > until) return undefined
      await pause(100)
    }
    await pause(afterSeconds * 1_000)
    if ((await bodyOf(httpsPort, host)) !== 'marker') return undefined
    const [worker] = /^\d+(?=\s+worker)/m.exec(await ask(join(folder, 'haproxy/master.sock'), 'show proc')) ?? []
    const at = Date.now()
    process.kill(Number(worker), 'SIGKILL')
    return at
  })

const bodyOf = async (httpsPort: number, host: string): Promise<string> =>
  (await get({ httpsPort }, { path: markerPath, host })).body

const loadNow = (): string => `load of the machine ${loadavg()[0]?.toFixed(1)}`

const seconds = (value: number | undefined) => (value === undefined ? '-' : value.toFixed(1)).padStart(6)

function show({ change, isStopped, signal, toHalt, toReturn, failedElsewhere }: Outcome): void {
  console.log(
    `${(isStopped ? 'yes' : 'NO').padEnd(7)}  ${signal.padEnd(21)}  ${seconds(toHalt)}s  ${seconds(toReturn)}s  ${String(failedElsewhere).padStart(16)}  ${change.kind}: ${change.name}`,
  )
}

function report(outcomes: readonly Outcome[], others: readonly Seen[]): boolean {
  const [stopped, elsewhere] = [
    outcomes.filter(({ isStopped }) => isStopped).length,
    outcomes.filter(({ failedElsewhere }) => failedElsewhere > 0).length,
  ]
  const failed = others.filter(({ isGood }) => !isGood)
  const slowest = (values: (number | undefined)[]) =>
    seconds(Math.max(...values.filter((value) => value !== undefined)))
  console.log(
    `${stopped} of ${outcomes.length} stopped, ${elsewhere} in force outside the canary; from the first signal to the halt at most ` +
      `${slowest(outcomes.map(({ toHalt }) => toHalt))} s, and until the canary is back ${slowest(outcomes.map(({ toReturn }) => toReturn))} s; ` +
      `${failed.length} of ${others.length} requests of other accounts failed`,
  )
  for (const node of new Set(failed.map((each) => each.node)))
    console.log(`  on ${node}: ${failed.filter((each) => each.node === node).length}`)
  if (!isJudged) return elsewhere > outcomes.length / 2
  const isFast = outcomes.every(({ toHalt = 0, toReturn = 0 }) => toHalt <= haltGoal && toReturn <= returnGoal)
  return stopped === outcomes.length && elsewhere === 0 && isFast && failed.every(({ node }) => node === 'canary')
}

await drill(async (scope) => {
  const apps = await startApplications(scope)
  const waves = await startTwoWaves(scope, soakSeconds * 1_000)
  const changes = await badChanges(apps, lateSeconds)
  assert.deepEqual([changes.length, new Set(changes.map(({ kind }) => kind)).size], [24, 12])
  const canary = await waves.startNode('canary', 0)
  // Before there are waves, so that none of this is watched.
  const owners: Owner[] = []
  for (const [index, change] of changes.entries())
    owners.push(
      await newTenantOf(
        waves.fleet,
        hostOf(index, change.isWildcard),
        apps.sound,
        change.isWildcard && `*.${hostOf(index)}`,
      ),
    )
  const bystanders = [
    await newTenantOf(waves.fleet, hostOf(90), apps.sound),
    await newTenantOf(waves.fleet, hostOf(91), apps.sound),
  ]
  const prepared: unknown[] = []
  for (const [index, change] of changes.entries()) prepared.push(await change.prepare?.(owners[index] as Owner))
  const nodes = [canary, await waves.startNode('later-1', 1), await waves.startNode('later-2', 1)]
  for (const node of nodes)
    for (const owner of [...owners, ...bystanders])
      await poll(async () => (await statusOf(node.httpsPort, owner.host)) === 200, undefined, { withinSeconds: 60 })
  const simulated = await startLater(scope, waves)
  const began = performance.now()
  if (!isJudged) await releaseEverything(waves, scope)

  console.log('stopped  signal                 to halt  back    failed elsewhere  change')
  const others: Seen[] = []
  const stop = bystanders.map(({ host }) => startVisitors(nodes, { host }, others))
  const todo = changes.map((change, index) => ({ change, owner: owners[index] as Owner, prepared: prepared[index] }))
  const outcomes: Outcome[] = []
  const isAlone = ({ change }: (typeof todo)[number]) => change.endsProxyAfterSeconds !== undefined
  const together = todo.filter((each) => !isAlone(each))
  for (let from = 0; from < together.length; from += atOnce)
    outcomes.push(
      ...(await Promise.all(together.slice(from, from + atOnce).map((each) => observe(waves, nodes, each)))),
    )
  for (const each of todo.filter(isAlone)) {
    const { endsProxyAfterSeconds: after = 0 } = each.change
    await setThresholds(waves.fleet.db, defaultCell.name, { soak_seconds: Math.max(soakSeconds, after + 30) })
    outcomes.push(await observe(waves, nodes, each))
  }
  for (const each of stop) await each()
  console.log(
    `${outcomes.length} changes in ${((performance.now() - began) / 60_000).toFixed(1)} minutes; ${loadNow()}`,
  )
  const isHeld = report(outcomes, others)
  return (await simulated.show()) === (isJudged ? 0 : simulatedCount) && isHeld
})

/** Simulated nodes of the later wave. */
async function startLater(scope: Scope, { fleet }: Waves) {
  const folders = await joinSimulated(fleet, simulatedCount, () => ({ wave: 1 }))
  const nodes = await startSimulated(scope, folders)
  await nodes.allReady()
  await nodes.remember()
  const { generation } = await one<{ generation: number }>(
    fleet.db,
    sql`select coalesce(max(generation), 0) as generation from outbox`,
  )
  return {
    /** Resolves to how many ever had what the changes made. */
    async show(): Promise<number> {
      if (simulatedCount === 0) return 0
      const rows = await many<{ key: RecordKey }>(
        fleet.db,
        sql`select distinct key from outbox where generation > ${generation} and cell_id is null`,
      )
      const keys = rows.map(({ key }) => key).filter(goesThroughWaves)
      const changed = await nodes.haveHad(keys)
      console.log(`${changed} of ${simulatedCount} simulated nodes of the later wave ever had one of these changes`)
      return changed
    },
  }
}
