import { random, randomBelow } from '../harness/random.ts'
import { ledgerFaults, nodeFaults } from './checks.ts'
import { type Call, clientOf } from './client.ts'
import { type Cluster, type Database, databases, type Name, shared } from './cluster.ts'
import { configurePatroni, failovers, kills, other, powerOff, powerOn, primaryOf, untilStandby } from './faults.ts'
import { type Recorded, record, withLostWrite } from './histories.ts'
import { figures, type Ledger, longestGap, newLedger, work } from './ledger.ts'
import { isLinearizable } from './linearizable.ts'
import { startProbes } from './probes.ts'
import { pause, poll } from './wait.ts'

export type Rehearsal = (cluster: Cluster, forMs: number) => Promise<string[]>

export const apiOf = (cluster: Cluster): Call => clientOf(`https://${shared}`, cluster.token)

/** The load of a rehearsal on one ledger, and everything that must be so when it is over. */
export async function underLoad(
  cluster: Cluster,
  faults: (ledger: Ledger) => Promise<void>,
  { check = true, calls = [apiOf(cluster)], workers = 8 } = {},
): Promise<{ ledger: Ledger; faults: string[] }> {
  const api = apiOf(cluster)
  await bothNodes(api)
  await untilStandby(cluster)
  const ledger = await newLedger(api)
  const probes = startProbes(cluster)
  let isOver = false
  const load = work(calls, ledger, () => isOver, workers)
  try {
    await Promise.race([faults(ledger), load])
  } finally {
    isOver = true
  }
  await load
  await untilStandby(cluster)
  const { faults: probed, figures: probeFigures } = await probes.end()
  console.log(`   ${figures(ledger)}\n   ${probeFigures}`)
  const found = [
    ...(await ledgerFaults(cluster, api, ledger)),
    ...probed,
    ...(check ? await nodeFaults(cluster, api, ledger) : []),
  ]
  if (check && found.length === 0) {
    const routes = ledger.entries.filter(({ value }) => value !== null).length
    console.log(
      `   every change has its audit event and outbox row; both nodes serve all ${routes} routes as the database has them`,
    )
  }
  await deleteEdge(api, ledger)
  return { ledger, faults: found }
}

const bothNodes = (api: Call) =>
  poll(
    () =>
      api('GET', '/edge_nodes').then(
        ({ body }) => body?.edge_nodes ?? [],
        () => [],
      ),
    (nodes: { live: boolean }[]) => nodes.filter(({ live }) => live).length === 2,
    { withinSeconds: 90, everyMs: 500 },
  )

/** Its host name is wanted by the next rehearsal. */
async function deleteEdge(api: Call, { edgeId }: Ledger): Promise<void> {
  await poll(
    () =>
      api('DELETE', `/edges/https/${edgeId}`).then(
        ({ status }) => status,
        () => 0,
      ),
    (status) => status === 204 || status === 404,
    { everyMs: 500 },
  )
}

/** Until so many more changes are acknowledged. */
async function progress(ledger: Ledger, count = 30, withinSeconds = 120): Promise<void> {
  const before = ledger.acknowledged.length
  await poll(
    () => ledger.acknowledged.length,
    (now) => now >= before + count,
    { withinSeconds },
  )
}

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

/** Resolves to a fault if none was found. Nodes have changes that the database has lost, as after a restore. */
async function afterLoss(cluster: Cluster, ledger: Ledger): Promise<string[]> {
  const api = apiOf(cluster)
  await bothNodes(api)
  const found = await ledgerFaults(cluster, api, ledger)
  console.log(`   ${figures(ledger)}\n   ${found.length} faults found, as there must be, such as:`)
  for (const fault of found.slice(0, 2)) console.log(`     ${fault}`)
  cluster.command('after-restore')
  await deleteEdge(api, ledger)
  return found.some((fault) => fault.startsWith('lost: ')) ? [] : ['the control found no loss']
}

const failover: Rehearsal = async (cluster) => {
  const found: string[] = []
  for (const [name, { begin, end, promotes }] of Object.entries(failovers)) {
    console.log(`   the machine of the primary ${name}:`)
    const { faults } = await underLoad(cluster, async (ledger) => {
      await progress(ledger)
      const old = await primaryOf(cluster)
      const from = Date.now()
      await begin(cluster, old)
      if (promotes)
        await poll(() => cluster.machines[other(old)] && isPrimary(cluster, other(old)), Boolean, {
          withinSeconds: 120,
          everyMs: 200,
        })
      const promoted = (Date.now() - from) / 1_000
      await progress(ledger, 30, 120)
      // Without those that were on their way when it happened.
      console.log(
        `   ${promotes ? `another primary after ${promoted.toFixed(1)} s, ` : ''}${longestGap(ledger, from).toFixed(1)} s without an acknowledged change`,
      )
      end(cluster, old)
      await untilStandby(cluster)
      await progress(ledger)
    })
    found.push(...faults.map((fault) => `${name}: ${fault}`))
  }
  return found
}

async function isPrimary(cluster: Cluster, name: Database): Promise<boolean> {
  const client = await cluster.onSocket(name)
  const rows = await client?.query('select pg_is_in_recovery() as standby').then(
    (result) => result.rows,
    () => undefined,
  )
  void client?.end().catch(() => {})
  return rows?.[0]?.standby === false
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

const partitions: Rehearsal = async (cluster, forMs) => {
  const names = Object.keys(cluster.machines) as Name[]
  let count = 0
  const { faults } = await underLoad(cluster, async (ledger) => {
    for (const until = Date.now() + forMs; Date.now() < until; count++) {
      const one = names[randomBelow(names.length)] as Name
      const rest = names.filter((name) => name !== one)
      const two = rest[randomBelow(rest.length)] as Name
      cluster.machines[one].cut([cluster.machines[two]])
      await pause(3_000 + random() * 12_000)
      cluster.machines[one].heal()
      if (random() < 0.5) await progress(ledger, 10, 120)
    }
  })
  console.log(`   ${count} partitions between two machines, of 3 to 15 s`)
  return faults
}

/** Everything restarted in turn, as for an upgrade: systemctl restart, and a switchover for PostgreSQL. */
const rolling: Rehearsal = async (cluster) => {
  const { faults } = await underLoad(cluster, async (ledger) => {
    const step = async (what: string, restart: () => Promise<void>) => {
      await progress(ledger)
      const [from, before] = [Date.now(), { ...ledger }]
      await restart()
      await progress(ledger)
      const failed =
        ledger.unknown + ledger.unanswered + ledger.refused - before.unknown - before.unanswered - before.refused
      console.log(
        `   ${what}: ${failed} calls without success, ${longestGap(ledger, from).toFixed(1)} s without an acknowledged change`,
      )
    }
    for (const name of ['control-1', 'control-2', 'edge-1', 'edge-2', 'data-1', 'data-2', 'data-3'] as const)
      for (const { name: service, machine, stop, start } of cluster.services)
        if (machine.name === name && service !== 'patroni')
          await step(`${service} on ${name} restarted`, async () => {
            await stop()
            start()
            await pause(service === 'serve' ? 4_000 : 2_000)
          })
    await step('switchover of PostgreSQL', () => switchOver(cluster))
    await untilStandby(cluster)
  })
  return faults
}

async function switchOver(cluster: Cluster): Promise<void> {
  const leader = await primaryOf(cluster)
  await untilStandby(cluster)
  const body = JSON.stringify({ leader, candidate: other(leader) })
  const answer = await fetch(`http://${cluster.machines[leader].address}:8008/switchover`, { method: 'POST', body })
  if (!answer.ok) throw new Error(`switchover: ${await answer.text()}`)
  await poll(() => isPrimary(cluster, other(leader)), Boolean, { everyMs: 100 })
}

/** Another build beside this one: each in turn serves, publishes, and runs an agent. */
export const versionSkew =
  (program: string): Rehearsal =>
  async (cluster) => {
    const primary = await primaryOf(cluster)
    const { faults } = await underLoad(cluster, async (ledger) => {
      for (const [name, service] of [
        ['control-1', 'serve'],
        ['edge-1', 'edge'],
        ['control-2', 'serve'],
      ] as const) {
        const its = cluster.service(name, service)
        // A build from before the pool followed the primary reads URLs of one server.
        its.use(program, primary)
        await its.stop()
        its.start()
        await pause(5_000)
        await progress(ledger, 100)
        console.log(`   ${service} on ${name} is the other build: changes go on`)
      }
    })
    for (const { use } of cluster.services) use()
    return faults
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
  partitions: { rehearse: partitions },
  rolling: { rehearse: rolling },
}
