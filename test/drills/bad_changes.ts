// `npm run drill -- bad-changes <judge> <late seconds>`: 24 bad changes of 12 kinds reach one node of three and are taken back; with `off` as the judge they show what they do everywhere.
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { ask } from '../../src/agent/haproxy/process/runtime.ts'
import { setThresholds } from '../../src/commands/cells/thresholds.ts'
import { defaultCell } from '../../src/operations/placement.ts'
import { openRollouts, RolloutFault, resumeRollout, type StoredRollout } from '../../src/operations/rollouts.ts'
import { get } from '../agent/http_harness.ts'
import { type BadChange, badChanges, markerPath, newTenantOf, type Owner } from '../fleet/bad_changes.ts'
import { type Seen, startApplications, startVisitors } from '../fleet/honest_traffic.ts'
import { startTwoWaves } from '../fleet/two_waves.ts'
import type { Scope } from '../harness/control_plane.ts'
import { drill } from '../harness/drill.ts'
import { pause, poll } from '../harness/poll.ts'
import { statusOf } from '../upgrade/installation.ts'

const isJudged = process.argv[2] !== 'off'
const lateSeconds = Number(process.argv[3] ?? 10)
const soakSeconds = 30
const atOnce = 7
const warmUpMs = 12_000
/** A backend that hangs is noticed when its requests time out. */
const longestMs = 120_000

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

function hostOf(index: number): string {
  return `app.t${index}.example`
}

/** As if there were no judge: each rollout goes on at once. */
function releaseEverything({ fleet }: Waves, scope: Scope): void {
  let isOver = false
  const releasing = (async () => {
    while (!isOver) {
      await pause(100)
      for (const { id, is_urgent } of await openRollouts(fleet.db, defaultCell.id))
        if (!is_urgent)
          await resumeRollout(fleet.db, id, { reason: 'a drill without a judge', isUrgent: true }).catch(unlessDecided)
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
  const stop = await startVisitors(nodes, owner.host, change.path ?? '/', seen)
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
  return {
    change,
    isStopped: change.isRefused === true || haltedAt !== undefined,
    signal: change.isRefused ? `${answer.body.error_code}` : (found?.evidence?.[0]?.signal ?? '-'),
    toHalt: haltedAt === undefined ? undefined : (haltedAt - first) / 1_000,
    toReturn: haltedAt === undefined ? undefined : Math.max(0, last - haltedAt) / 1_000,
    failedElsewhere: bad.length - onCanary.length + Math.max(0, kills.length - 1),
  }
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

function report(outcomes: readonly Outcome[], others: readonly Seen[]): boolean {
  const seconds = (value: number | undefined) => (value === undefined ? '-' : value.toFixed(1)).padStart(6)
  console.log('stopped  signal                 to halt  back    failed elsewhere  change')
  for (const { change, isStopped, signal, toHalt, toReturn, failedElsewhere } of outcomes)
    console.log(
      `${(isStopped ? 'yes' : 'NO').padEnd(7)}  ${signal.padEnd(21)}  ${seconds(toHalt)}s  ${seconds(toReturn)}s  ${String(failedElsewhere).padStart(16)}  ${change.kind}: ${change.name}`,
    )
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
  return isJudged ? stopped === outcomes.length && elsewhere === 0 : elsewhere > outcomes.length / 2
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
    owners.push(await newTenantOf(waves.fleet, hostOf(index), apps.sound, change.isWildcard && `*.t${index}.example`))
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
  if (!isJudged) releaseEverything(waves, scope)

  const others: Seen[] = []
  const stop = await Promise.all(bystanders.map(({ host }) => startVisitors(nodes, host, '/', others)))
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
  return report(outcomes, others)
})
