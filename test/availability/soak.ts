// Hours of ordinary load: nothing may grow that is not kept on purpose.
import { writeFile } from 'node:fs/promises'
import { Agent, get } from 'node:http'
import { join } from 'node:path'
import { quantile } from '../harness/quantiles.ts'
import type { Cluster } from './cluster.ts'
import type { Ledger } from './ledger.ts'
import { apiOf, type Rehearsal, underLoad } from './load.ts'
import { createPacedClient, startMixedLoad } from './mixed_load.ts'
import { newSamples } from './samples.ts'
import { startTraffic, trafficFaults } from './traffic.ts'
import { type Series, trendOf } from './trends.ts'
import { pause } from './wait.ts'

/** At least 36 samples, so that each of the six parts of the last two thirds has four. */
const intervalOf = (forMs: number): number => Math.min(30_000, forMs / 36)

export const soak: Rehearsal = async (cluster, forMs) => {
  const { series, faults } = await sampleUnderLoad(cluster, forMs)
  return [...faults, ...growthFaults(series, 3_600_000 / intervalOf(forMs))]
}

/** Connections to one of the control planes that are opened and never closed, one more for each sample. */
export const controlOfSoak: Rehearsal = async (cluster, forMs) => {
  const agent = new Agent({ keepAlive: true })
  let open = 0
  const leak = () => {
    open++
    // Requests at the same time, each on a connection of its own, so that none of them is idle for too long.
    for (let connection = 0; connection < open; connection++)
      get({ host: cluster.machines['control-1'].address, port: 8080, path: '/healthz', agent }, (response) =>
        response.resume(),
      ).on('error', () => {})
  }
  const controlMs = forMs / 4
  const { series, faults } = await sampleUnderLoad(cluster, controlMs, leak).finally(() => agent.destroy())
  const grown = growthFaults(series, 3_600_000 / intervalOf(controlMs))
  for (const fault of grown) console.log(`   found: ${fault}`)
  const isFound = grown.some((fault) => fault.startsWith('control-1 serve: descriptors'))
  return [...faults, ...(isFound ? [] : [`the control did not find ${open} connections that stayed open`])]
}

/** Takes samples under load, and checks afterwards what every rehearsal checks. */
async function sampleUnderLoad(
  cluster: Cluster,
  forMs: number,
  beforeEach = () => {},
): Promise<{ series: Series[]; faults: string[] }> {
  const samples = newSamples(cluster)
  const client = createPacedClient(apiOf(cluster))
  const wrong: string[] = []
  const during = async (ledger: Ledger) => {
    // So many that the ring of log lines in HAProxy, 8 MiB, is full within nine minutes.
    const traffic = await startTraffic(cluster, apiOf(cluster), ledger, 10)
    const endMixedLoad = await startMixedLoad(cluster, client)
    const until = Date.now() + forMs
    for (let next = Date.now() + intervalOf(forMs); next <= until; next += intervalOf(forMs)) {
      await pause(Math.max(0, next - Date.now()))
      beforeEach()
      const took = { changes: client.changesMs, reads: client.readsMs, visitors: traffic.tookMs }
      for (const [name, times] of Object.entries(took))
        for (const [shown, share] of [
          ['p50', 0.5],
          ['p99', 0.99],
        ] as const)
          samples.add(`${name}: ${shown}`, 'ms', quantile(times, share))
      for (const times of Object.values(took)) times.length = 0
      await samples.take()
    }
    await traffic.end()
    wrong.push(...trafficFaults(traffic), ...(await endMixedLoad()))
  }
  const { faults } = await underLoad(cluster, during, { calls: [client.call], workers: 3 })
  const series = [...samples.series.values()]
  await writeFile(join(cluster.folder, 'samples.json'), JSON.stringify(series))
  return { series, faults: [...faults, ...wrong] }
}

/** Prints the trends of all series but those of small tables without a fault. */
function growthFaults(all: readonly Series[], samplesPerHour: number): string[] {
  const trends = all.map((series) => ({ ...series, ...trendOf(series, samplesPerHour) }))
  console.log(`   ${'median of'.padStart(51)} the first third  the last third  per hour`)
  for (const { name, unit, first, last, perHour, mayGrow, fault } of trends.toSorted((a, b) =>
    a.name < b.name ? -1 : 1,
  ))
    if (fault || !name.startsWith('table ') || last >= 1) {
      const figures = [first, last, perHour].map((figure) => figure.toFixed(1).padStart(15)).join('')
      console.log(`   ${name.padEnd(48)} ${unit.padEnd(5)}${figures}${mayGrow ? `  ${mayGrow}` : ''}`)
    }
  return trends.flatMap(({ fault }) => fault ?? [])
}
