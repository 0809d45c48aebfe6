// `npm run drill -- comparison <routes> <tampered> <changes> <quiet seconds>`: a HAProxy with 100,000 routes that another program
// changes over its socket. Everything has to be found, named and repaired within 60 seconds, without a false alarm during
// ordinary changes and with at most 3 % of a core; and it prints what reading a change back takes.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { defaultComparisonMs } from '../../src/agent/haproxy/comparison/comparison.ts'
import type { Difference } from '../../src/agent/haproxy/comparison/difference.ts'
import { ask, converse, mapRuntime } from '../../src/agent/haproxy/process/runtime.ts'
import { mapFile } from '../../src/agent/haproxy/settings.ts'
import { type Edge, id, startEdge } from '../agent/proxy_harness.ts'
import { drill } from '../harness/drill.ts'
import { pause, poll } from '../harness/poll.ts'
import { quantiles } from '../harness/quantiles.ts'

const routes = Number(process.argv[2] ?? 100_000)
const tampered = Number(process.argv[3] ?? 1_000)
const changes = Number(process.argv[4] ?? 10_000)
const quietSeconds = Number(process.argv[5] ?? 60)
const withinSeconds = 60
const mostShare = 0.03
const routesPerEdge = 10
const found: Difference[] = []
let agreements = 0

await drill(async (scope) => {
  const options = {
    onDifferences: (some: readonly Difference[]) => found.push(...some),
    onAgreement: () => agreements++,
    comparisonMs: defaultComparisonMs,
  }
  const edge = await startEdge(scope, { options })
  const all = manyRoutes()
  const began = performance.now()
  await edge.put(all)
  console.log(`${routes} routes in force after ${secondsSince(began)} s`)
  const share = await shareOfCore(edge)
  await printCost(edge)
  const alarms = await falseAlarms(edge, all)
  const seconds = await repairSeconds(edge)
  return share <= mostShare && alarms === 0 && seconds <= withinSeconds
})

function secondsSince(began: number): string {
  return ((performance.now() - began) / 1_000).toFixed(1)
}

/** HTTPS edges with a name, a backend and ten routes each. */
function manyRoutes(): Record<string, object> {
  const records: Record<string, object> = {}
  const account = id('ac')
  for (let edge = 0; edge * routesPerEdge < routes; edge++) {
    const [https, backend] = [id('edghts'), id('bkdst')]
    records[`https.${https}`] = { hostports: [`h${edge}.example:443`] }
    records[`backend.${backend}`] = { address: '127.0.0.1', port: 9, tls: false, host: 'upstream.test' }
    for (let index = 0; index < routesPerEdge; index++)
      records[`route.${id('edghtsrt')}`] = {
        ...{
          account,
          edge: https,
          match_type: 'path_prefix',
          match: `/r${index}`,
          backend,
          policies: null,
          headers: null,
        },
      }
  }
  return records
}

/** A complete comparison that began after this call: the second one that ends after it. */
async function agreement(): Promise<void> {
  const before = agreements
  await poll(
    () => agreements,
    (now) => now >= before + 2,
    { withinSeconds: 600 },
  )
}

/** In milliseconds. */
function processorTime(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(' ')
  return (Number(fields[13]) + Number(fields[14])) * 10
}

async function processesOf({ settings }: Edge): Promise<Record<string, number>> {
  const worker = /^Pid: (\d+)$/m.exec(await ask(settings.runtimeSocket, 'show info'))?.[1]
  return { agent: process.pid, HAProxy: Number(worker) }
}

/** What both take without traffic or changes, which is more than the comparison alone. */
async function shareOfCore(edge: Edge): Promise<number> {
  await agreement()
  const pids = Object.entries(await processesOf(edge))
  const before = pids.map(([, pid]) => processorTime(pid))
  const comparisons = agreements
  const began = performance.now()
  await pause(quietSeconds * 1_000)
  const elapsed = performance.now() - began
  const shares = pids.map(([, pid], index) => (processorTime(pid) - (before[index] ?? 0)) / elapsed)
  const percent = (share = 0) => `${(share * 100).toFixed(2)} %`
  const share = shares.reduce((sum, each) => sum + each, 0)
  const each = pids.map(([name], index) => `${name} ${percent(shares[index])}`).join(', ')
  console.log(`quiet: ${percent(share)} of a core (${each}), ${agreements - comparisons} comparisons`)
  return share
}

/** The same change with and without reading it back, in turns. */
async function printCost(edge: Edge): Promise<void> {
  const runtime = mapRuntime(edge.settings)
  const { HAProxy: worker = 0 } = await processesOf(edge)
  // To the value that it has: another one would be a difference.
  const [key, value] = (await Array.fromAsync(runtime.entries('route')))[0] ?? assert.fail()
  const ways = {
    'without reading back': () => runtime.change([{ kind: 'set', map: 'route', key, value }]),
    'with reading back': async () => {
      const place = { map: 'route', key } as const
      assert.deepEqual(await runtime.change([{ kind: 'set', ...place, value }], [place]), [value])
    },
  }
  const seen = Object.entries(ways).map(([name, work]) => ({ name, work, ms: [] as number[], own: 0, haproxy: 0 }))
  for (let round = 0; round < 40; round++)
    for (const way of seen) {
      const [own, haproxy] = [process.cpuUsage(), processorTime(worker)]
      for (let index = 0; index < 50; index++) {
        const began = performance.now()
        await way.work()
        way.ms.push(performance.now() - began)
      }
      const { user, system } = process.cpuUsage(own)
      way.own += user + system
      way.haproxy += (processorTime(worker) - haproxy) * 1_000
    }
  for (const { name, ms, own, haproxy } of seen) {
    const [ofAgent, ofHaproxy] = [own, haproxy].map((sum) => Math.round(sum / ms.length))
    console.log(
      `a change ${name}: ${quantiles(ms)}; processor time of the agent ${ofAgent} µs, of HAProxy ${ofHaproxy} µs`,
    )
  }
}

async function falseAlarms(edge: Edge, all: Record<string, object>): Promise<number> {
  found.length = 0
  const keys = Object.keys(all).filter((key) => key.startsWith('route.'))
  const began = performance.now()
  const before = agreements
  let index = 0
  // Until one comparison has been complete among them.
  for (; index < changes || agreements < before + 2; index++) {
    const key = keys[(index * 7_919) % keys.length] ?? assert.fail()
    const isGone = index % 5 === 0
    await edge.put({ [key]: isGone ? null : { ...all[key], match: `/changed${index}` } })
  }
  console.log(`${index} ordinary changes in ${secondsSince(began)} s`)
  await agreement()
  console.log(`false alarms: ${found.length}`)
  return found.length
}

/** Changes, removes and adds entries in equal parts, and resolves to how long it took until all were repaired. */
async function repairSeconds({ settings }: Edge): Promise<number> {
  const file = mapFile(settings, 'route')
  const entries = async () => new Map(await Array.fromAsync(mapRuntime(settings).entries('route')))
  const before = await entries()
  const every = Math.floor(before.size / tampered)
  const victims = [...before.keys()].filter((_, index) => index % every === 0).slice(0, tampered)
  const names: string[] = []
  const commands = victims.map((key, index) => {
    if (index % 3 === 0) {
      names.push(`changed route ${key}`)
      return `set map ${file} ${key} ${before.get(key)}x`
    }
    names.push(index % 3 === 1 ? `missing route ${key}` : `unexpected route ${key}intruder/`)
    return index % 3 === 1 ? `del map ${file} ${key}` : `add map ${file} ${key}intruder/ ${before.get(key)}`
  })
  found.length = 0
  for await (const { answer } of converse(settings.runtimeSocket, commands)) assert.equal(answer, '')
  const began = performance.now()
  await poll(
    () => found.length,
    (now) => now >= commands.length,
    { withinSeconds: 300, everyMs: 100 },
  )
  const seconds = (performance.now() - began) / 1_000
  await agreement()
  assert.deepEqual(found.map(({ what, name, kind }) => `${kind} ${what} ${name}`).sort(), names.sort())
  const after = await entries()
  assert.equal(after.size, before.size)
  for (const [key, value] of before) assert.equal(after.get(key), value, key)
  console.log(`${commands.length} entries found, named and repaired after ${seconds.toFixed(1)} s`)
  return seconds
}
