// `npm run drill -- rollout-faults <rollouts> <simulated>`: half of the rollouts are halted while nodes and publishers are killed and
// NATS is cut off at random: no node of the later wave ever has what was halted. One real node and simulated ones are in it.
import { haltRollout, RolloutFault, resumeRollout } from '../../src/operations/rollouts.ts'
import { get } from '../agent/http_harness.ts'
import { newTenantOf, type Owner } from '../fleet/bad_changes.ts'
import { startApplications } from '../fleet/honest_traffic.ts'
import { markOf } from '../fleet/marks.ts'
import { joinSimulated, startSimulated } from '../fleet/simulated.ts'
import { startTwoWaves } from '../fleet/two_waves.ts'
import type { Answer } from '../harness/client.ts'
import { type Scope, stop } from '../harness/control_plane.ts'
import { drill } from '../harness/drill.ts'
import { pause, poll } from '../harness/poll.ts'
import { statusOf } from '../upgrade/installation.ts'

const [rolloutCount = 20, simulatedCount = 10] = process.argv.slice(2).map(Number)
const accounts = 4
const soakMs = 2_000
/** Long enough for another process to take over and to compare what nodes are sent with the database. */
const longHaltMs = 20_000
const withinSeconds = 180

type Waves = Awaited<ReturnType<typeof startTwoWaves>>
type Node = Awaited<ReturnType<Waves['startNode']>>
const upTo = (ms: number): number => Math.random() * ms

await drill(async (scope) => {
  const apps = await startApplications(scope)
  const waves = await startTwoWaves(scope, soakMs)
  await waves.fleet.startProcess()
  const nodes = [await waves.startNode('canary', 0)]
  const owners: Owner[] = []
  for (let n = 0; n < accounts; n++) owners.push(await newTenantOf(waves.fleet, `t${n}.example`, apps.sound))
  nodes.push(await waves.startNode('later', 1))
  for (const { host } of owners)
    for (const { httpsPort } of nodes)
      await poll(async () => (await statusOf(httpsPort, host)) === 200, undefined, { withinSeconds: 60 })
  const simulated = await startLater(scope, waves)
  const served = watchLater(scope, nodes, owners)
  const faults = startFaults(scope, waves, nodes, simulated)

  const decided = { halted: [] as string[], released: [] as string[] }
  let next = 0
  await Promise.all(
    owners.map(async (owner) => {
      while (next < rolloutCount) {
        const mark = markOf(next++)
        decided[(await rollOut(waves, owner, mark)) ? 'halted' : 'released'].push(mark)
      }
    }),
  )
  const happened = await faults.end()
  // What is on its way by mistake would come now.
  await pause(10_000)
  const wrong = decided.halted.filter((mark) => served.has(mark))
  const had = (await simulated.allMarks()).filter((mark) => decided.halted.includes(mark))
  const seen = decided.released.filter((mark) => served.has(mark)).length
  console.log(
    `${happened.size} kinds of faults: ${[...happened].map(([name, count]) => `${name} ${count}`).join(', ')}`,
  )
  console.log(
    `${decided.halted.length} rollouts halted: ${wrong.length} were served by the later node, ${had.length} reached any of ${simulatedCount} simulated ones`,
  )
  console.log(`${decided.released.length} rollouts released: ${seen} were seen on the later node`)
  return wrong.length === 0 && had.length === 0 && decided.halted.length > 0 && seen > decided.released.length / 2
})

/** Resolves to whether it was halted. What was halted is taken back, and the account goes on. */
async function rollOut(waves: Waves, owner: Owner, mark: string): Promise<boolean> {
  const { fleet, open } = waves
  const write = async (value: string) => {
    const path = `${owner.route.uri}/response_headers`
    const { headers } = await insist(() => owner.client('PUT', path, { add: { 'x-release': value } }))
    return Number(headers.get('service-generation'))
  }
  await untilInRollout(waves, owner, await write(mark))
  let isHalted = false
  if (Math.random() < 0.5) {
    await pause(upTo(soakMs * 1.2))
    const [rollout] = (await open(owner)).filter(({ keys }) => keys.length > 0)
    if (rollout)
      isHalted = await haltRollout(fleet.db, rollout.id, { reason: 'a drill' }).then(() => true, unlessDecided)
    if (isHalted && rollout) {
      await pause(Math.random() < 0.2 ? longHaltMs : upTo(3_000))
      await untilInRollout(waves, owner, await write('taken-back'))
      await resumeRollout(fleet.db, rollout.id, { reason: 'taken back' })
    }
  }
  await poll(
    () => open(owner),
    ({ length }) => length === 0,
    { withinSeconds, everyMs: 100 },
  )
  return isHalted
}

/** A publisher assigns changes a moment after they were made. */
async function untilInRollout({ rollouts }: Waves, owner: Owner, generation: number): Promise<void> {
  await poll(
    () => rollouts(owner),
    (found) => found.some(({ open_until }) => open_until >= generation),
    { withinSeconds, everyMs: 100 },
  )
}

function unlessDecided(error: unknown): false {
  if (!(error instanceof RolloutFault)) throw error
  return false
}

/** Until a process answers. */
async function insist(work: () => Promise<Answer>): Promise<Answer> {
  const answer = await poll(
    () => work().catch(() => undefined),
    (answered) => answered !== undefined && answered.status < 300,
    { withinSeconds, everyMs: 200 },
  )
  return answer as Answer
}

/** Everything that a client has found in answers of the later node. */
function watchLater(scope: Scope, nodes: readonly Node[], owners: readonly Owner[]): ReadonlySet<string> {
  const served = new Set<string>()
  let isOver = false
  const looking = owners.map(async ({ host }) => {
    while (!isOver) {
      const httpsPort = nodes[1]?.httpsPort ?? 0
      const answer = await get({ httpsPort }, { path: '/', host }).catch(() => undefined)
      const [, mark] = /^x-release: (\S+)/im.exec(answer?.head ?? '') ?? []
      if (mark) served.add(mark)
      await pause(50)
    }
  })
  scope.after(async () => {
    isOver = true
    await Promise.all(looking)
  })
  return served
}

async function startLater(scope: Scope, { fleet }: Waves) {
  const folders = await joinSimulated(fleet, simulatedCount, () => ({ wave: 1 }))
  let nodes = await startSimulated(scope, folders)
  await nodes.allReady()
  const marks = new Set<string>()
  async function allMarks(): Promise<string[]> {
    for (const mark of await nodes.marks()) marks.add(mark)
    return [...marks]
  }
  return {
    allMarks,
    async restart(): Promise<void> {
      await allMarks()
      await nodes.kill()
      nodes = await startSimulated(scope, folders)
    },
  }
}

/** One after the other, with pauses. */
function startFaults(scope: Scope, { fleet }: Waves, nodes: Node[], simulated: Awaited<ReturnType<typeof startLater>>) {
  const restartNode = (index: number) => async () => {
    const node = nodes[index] as Node
    await stop(node.child, 'SIGKILL')
    await pause(upTo(3_000))
    nodes[index] = Object.assign(await fleet.startJoined(node.machine), { machine: node.machine, name: node.name })
  }
  const restartServe = async () => {
    const running = fleet.processes.filter(({ child }) => child.exitCode === null && child.signalCode === null)
    const chosen = running[Math.floor(Math.random() * running.length)]
    if (!chosen) return
    await stop(chosen.child, 'SIGKILL')
    await pause(upTo(2_000))
    await fleet.startProcess({ GATEHOUSE_LISTEN: `127.0.0.1:${chosen.port}` })
  }
  const kinds: Record<string, () => Promise<void>> = {
    'the canary killed': restartNode(0),
    'the later node killed': restartNode(1),
    'simulated nodes killed': simulated.restart,
    'gatehouse serve killed': restartServe,
    async 'NATS cut off'() {
      await fleet.nats.stop('SIGKILL')
      await pause(upTo(4_000))
      await fleet.nats.restart()
    },
  }
  const happened = new Map<string, number>()
  let isOver = false
  const going = (async () => {
    while (!isOver) {
      await pause(500 + upTo(3_000))
      const [name, work] = Object.entries(kinds)[Math.floor(Math.random() * Object.keys(kinds).length)] ?? []
      if (!name || !work) continue
      await work()
      happened.set(name, (happened.get(name) ?? 0) + 1)
    }
  })()
  const end = async () => {
    isOver = true
    await going
    return happened
  }
  scope.after(async () => void (await end()))
  return { end }
}
