// Everything restarted in turn, and builds of two versions side by side.
import type { Cluster } from './cluster.ts'
import { other, powerOff, powerOn, primaryOf, untilStandby } from './faults.ts'
import { longestGap, newLedger, work } from './ledger.ts'
import { apiOf, bothNodes, deleteEdge, isPrimary, progress, type Rehearsal, underLoad } from './load.ts'
import { startTraffic, type Traffic, trafficFaults } from './traffic.ts'
import { pause, poll } from './wait.ts'

/** Everything restarted in turn, as for an upgrade: systemctl restart, and a switchover for PostgreSQL. */
export const rolling: Rehearsal = async (cluster) => {
  const tooLong: string[] = []
  let traffic: Traffic | undefined
  const { faults } = await underLoad(cluster, async (ledger) => {
    traffic = await startTraffic(cluster, apiOf(cluster), ledger)
    const step = async (what: string, restart: () => Promise<void>) => {
      await progress(ledger)
      const [from, before] = [Date.now(), { ...ledger }]
      await restart()
      await progress(ledger)
      const failed =
        ledger.unknown + ledger.unanswered + ledger.refused - before.unknown - before.unanswered - before.refused
      const gap = longestGap(ledger, from)
      if (gap > longestRestart) tooLong.push(`${what}: ${gap.toFixed(1)} s without an acknowledged change`)
      console.log(`   ${what}: ${failed} calls without success, ${gap.toFixed(1)} s without an acknowledged change`)
    }
    for (const name of ['control-1', 'control-2', 'edge-1', 'edge-2', 'data-1', 'data-2', 'data-3'] as const)
      for (const { name: service, machine, stop, start } of cluster.services)
        if (machine.name === name && service !== 'patroni')
          await step(`${service} on ${name} restarted`, async () => {
            await stop()
            start()
            await pause(service === 'serve' ? 4_000 : 2_000)
            // As an operator who takes the next node only when this one is back.
            if (service === 'edge') await poll(() => traffic?.ready.size === 2)
          })
    await step('switchover of PostgreSQL', () => switchOver(cluster))
    await untilStandby(cluster)
    await traffic.end()
  }).finally(() => traffic?.end())
  return [...faults, ...tooLong, ...(traffic ? trafficFaults(traffic) : [])]
}

/** In seconds. Most of it is the time until clients have found another process. */
const longestRestart = 10

/** Edge nodes that end without draining, and both control planes at once: the rehearsal must notice each. */
export const controlOfRolling: Rehearsal = async (cluster) => {
  const api = apiOf(cluster)
  await bothNodes(api)
  const ledger = await newLedger(api)
  const traffic = await startTraffic(cluster, api, ledger)
  let isOver = false
  const load = work([api], ledger, () => isOver)
  await progress(ledger)
  for (const name of ['edge-1', 'edge-2'] as const) {
    await powerOff(cluster, name)
    powerOn(cluster, name)
    await pause(8_000)
  }
  await traffic.end()
  const from = Date.now()
  const both = (['control-1', 'control-2'] as const).map((name) => cluster.service(name, 'serve'))
  await Promise.all(both.map(({ stop }) => stop()))
  await pause((longestRestart + 1) * 1_000)
  for (const { start } of both) start()
  await progress(ledger)
  isOver = true
  await load
  const [gap, lost] = [longestGap(ledger, from), trafficFaults(traffic)]
  console.log(`   both control planes at once: ${gap.toFixed(1)} s without an acknowledged change`)
  await bothNodes(api)
  await deleteEdge(api, ledger)
  return [
    ...(lost.length > 0 ? [] : ['the control found no failed request']),
    ...(gap > longestRestart ? [] : ['the control found no gap']),
  ]
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
