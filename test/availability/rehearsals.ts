import { quantile } from '../harness/quantiles.ts'
import { random } from '../harness/random.ts'
import { clientOf } from './client.ts'
import { type Cluster, databases } from './cluster.ts'
import { configurePatroni, failovers, kills, other, powerOff, powerOn, primaryOf, untilStandby } from './faults.ts'
import { type Recorded, record, withLostWrite } from './histories.ts'
import { type Ledger, longestGap, newLedger, work } from './ledger.ts'
import { isLinearizable } from './linearizable.ts'
import { afterLoss, apiOf, bothNodes, deleteEdge, isPrimary, progress, type Rehearsal, underLoad } from './load.ts'
import { controlOfPartitions, partitions } from './partitions.ts'
import { controlOfRolling, rolling } from './rolling.ts'
import { controlOfSoak, soak } from './soak.ts'
import { pause, poll } from './wait.ts'

const ledgerUnderKills: Rehearsal = async (cluster, forMs) => {
  const times = new Map<string, number>()
  const gaps = new Map<string, number>()
  const { faults } = await underLoad(cluster, async (ledger) => {
    const until = Date.now() + forMs
    const names = Object.keys(kills)
    for (let round = 0; round < names.length || Date.now() < until; round++) {
      const name = names[round % names.length] as string
      await progress(ledger)
      await pause(random() * 500)
      const from = Date.now()
      await kills[name]?.(cluster)
      await progress(ledger)
      await pause(1_500)
      times.set(name, (times.get(name) ?? 0) + 1)
      gaps.set(name, Math.max(gaps.get(name) ?? 0, longestGap(ledger, from)))
    }
  })
  for (const [name, count] of times)
    console.log(
      `   kill -9 of ${name}: ${count} times, at most ${gaps.get(name)?.toFixed(1)} s without an acknowledged change`,
    )
  return faults
}

/** PostgreSQL that acknowledges before it has written anything, and so before its standby has: the ledger must notice. */
const controlOfLedger: Rehearsal = async (cluster) => {
  const early = ['synchronous_commit = off', "wal_writer_delay = '10s'", "wal_writer_flush_after = '1GB'"]
  const set = async (how: (setting: string) => string) => {
    for (const name of databases) {
      const client = await poll(() => cluster.onSocket(name), Boolean, { everyMs: 500 })
      for (const setting of early) await client?.query(`alter system ${how(setting)}`)
      await client?.query('select pg_reload_conf()')
      await client?.end()
    }
  }
  // Before, so that the edge itself is not lost.
  const ledger = await newLedger(apiOf(cluster))
  await set((setting) => `set ${setting}`)
  // /readyz says that PostgreSQL may lose changes, so the proxy in front would send nothing there.
  const calls = (['control-1', 'control-2'] as const).map((name) =>
    clientOf(`http://${cluster.machines[name].address}:8080`, cluster.token),
  )
  let isOver = false
  const load = work(calls, ledger, () => isOver)
  await progress(ledger, 200)
  const old = await primaryOf(cluster)
  await powerOff(cluster, old)
  await progress(ledger, 30, 180)
  isOver = true
  await load
  powerOn(cluster, old)
  await set((setting) => `reset ${setting.split(' ')[0]}`)
  await untilStandby(cluster)
  return afterLoss(cluster, ledger)
}

const failover: Rehearsal = async (cluster, forMs) => {
  const found: string[] = []
  const names = Object.keys(failovers)
  const times = Object.fromEntries(names.map((name) => [name, { promoted: [] as number[], gaps: [] as number[] }]))
  const until = Date.now() + forMs
  for (let round = 0; round < names.length || Date.now() < until; round++) {
    const name = names[round % names.length] as string
    const { begin, end, promotes } = failovers[name] as (typeof failovers)[string]
    console.log(`   the machine of the primary ${name}:`)
    const { faults } = await underLoad(cluster, async (ledger) => {
      await progress(ledger)
      const old = await primaryOf(cluster)
      const from = Date.now()
      await begin(cluster, old)
      if (promotes) {
        await poll(() => isPrimary(cluster, other(old)), Boolean, { withinSeconds: 120, everyMs: 200 })
        times[name]?.promoted.push((Date.now() - from) / 1_000)
      }
      // Without those that were on their way when it happened.
      await progress(ledger, 30, 120)
      times[name]?.gaps.push(longestGap(ledger, from))
      end(cluster, old)
      await untilStandby(cluster)
      await progress(ledger)
    })
    found.push(...faults.map((fault) => `${name}: ${fault}`))
  }
  for (const [name, { promoted, gaps }] of Object.entries(times)) {
    const untilPrimary = `${quantile(promoted, 0.5).toFixed(1)} s (median), at most ${Math.max(...promoted).toFixed(1)} s`
    console.log(
      `   ${name}: ${gaps.length} times, ${promoted.length > 0 ? `another primary after ${untilPrimary}, ` : ''}` +
        `at most ${Math.max(...gaps).toFixed(1)} s without an acknowledged change`,
    )
  }
  return found
}

/** A standby that no commit waits for: what it lacks when it is promoted is lost. */
const controlOfFailover: Rehearsal = async (cluster) => {
  const api = apiOf(cluster)
  await untilStandby(cluster)
  await configurePatroni(cluster, { synchronous_mode: false })
  const old = await primaryOf(cluster)
  await poll(async () => !(await cluster.hasStandby()), Boolean, { everyMs: 500 })
  const ledger = await newLedger(api)
  let isOver = false
  const load = work([api], ledger, () => isOver)
  await progress(ledger)
  cluster.machines[old].cut([cluster.machines[other(old)]])
  await progress(ledger, 50)
  await powerOff(cluster, old)
  await progress(ledger, 30, 180)
  isOver = true
  await load
  cluster.machines[old].heal()
  powerOn(cluster, old)
  await configurePatroni(cluster, { synchronous_mode: true })
  await untilStandby(cluster)
  return afterLoss(cluster, ledger)
}

const canceledWaits = 'is cut off from etcd and the standby, and waits for the standby are canceled'
type AnyFault = (typeof failovers)[string] | (typeof kills)[string]

/** What clients read and wrote on the same few routes from before the fault until it is mended. */
async function recordAround(cluster: Cluster, registers: Ledger, fault: AnyFault): Promise<Recorded[]> {
  const old = await primaryOf(cluster)
  const recorded = await record(apiOf(cluster), registers, async () => {
    await pause(2_000)
    if (typeof fault === 'function') await fault(cluster)
    else {
      await fault.begin(cluster, old)
      await poll(() => isPrimary(cluster, other(old)), Boolean, { withinSeconds: 120, everyMs: 200 })
      await pause(2_000)
      fault.end(cluster, old)
    }
    await pause(4_000)
  })
  await untilStandby(cluster)
  return recorded
}

/** Clients that read and write the same few routes while primaries fail and processes die. */
const histories: Rehearsal = async (cluster, forMs) => {
  const found: string[] = []
  const count = { operations: 0, unknown: 0, histories: 0, controls: 0 }
  const promoting = Object.entries(failovers).filter(([name, { promotes }]) => promotes && name !== canceledWaits)
  const plan: AnyFault[] = [...promoting.map(([, fault]) => fault), ...Object.values(kills)]
  const load = async () => {
    // An edge of its own: what is written there is in no ledger.
    const registers = await newLedger(apiOf(cluster), 'histories.example')
    const until = Date.now() + forMs
    for (let round = 0; Date.now() < until; round++)
      for (const { initial, history } of await recordAround(
        cluster,
        registers,
        plan[round % plan.length] as AnyFault,
      )) {
        count.histories++
        count.operations += history.length
        count.unknown += history.filter(({ ended }) => ended === Number.POSITIVE_INFINITY).length
        if (!isLinearizable(initial, history))
          found.push(`no order explains ${JSON.stringify(history).slice(0, 3_000)}`)
        else if (!isLinearizable(initial, withLostWrite(history))) count.controls++
        else found.push('a history with a lost write passes')
      }
    await deleteEdge(apiOf(cluster), registers)
  }
  const { faults } = await underLoad(cluster, load, { workers: 2 })
  console.log(
    `   ${count.histories} histories with ${count.operations} operations, ${count.unknown} of unknown outcome; ` +
      `${count.controls} with a read of what was overwritten put in were found`,
  )
  return [...found, ...faults]
}

/** A canceled wait for the standby makes a change visible that the failover then loses: no order explains that. */
const controlOfHistories: Rehearsal = async (cluster) => {
  const api = apiOf(cluster)
  await untilStandby(cluster)
  const registers = await newLedger(api, 'histories.example')
  const recorded = await recordAround(cluster, registers, failovers[canceledWaits] as AnyFault)
  await bothNodes(api)
  await deleteEdge(api, registers)
  const broken = recorded.filter(({ initial, history }) => !isLinearizable(initial, history)).length
  console.log(`   no order explains ${broken} of ${recorded.length} histories, as must be`)
  return broken > 0 ? [] : ['the control found nothing']
}

export const rehearsals: Record<string, { rehearse: Rehearsal; control?: Rehearsal }> = {
  ledger: { rehearse: ledgerUnderKills, control: controlOfLedger },
  failover: { rehearse: failover, control: controlOfFailover },
  histories: { rehearse: histories, control: controlOfHistories },
  partitions: { rehearse: partitions, control: controlOfPartitions },
  rolling: { rehearse: rolling, control: controlOfRolling },
  soak: { rehearse: soak, control: controlOfSoak },
}
