import { request } from 'node:https'
import type { Call } from './client.ts'
import type { Cluster } from './cluster.ts'
import { type Ledger, redirectTo, targetOf } from './ledger.ts'
import { pause } from './wait.ts'

const nodes = ['edge-1', 'edge-2'] as const
const checkEveryMs = 500

export type Traffic = {
  sent: number
  failures: Record<string, number>
  /** How long each answer took. */
  tookMs: number[]
  /** The nodes that get requests. */
  readonly ready: ReadonlySet<string>
  end: () => Promise<void>
}

/**
 * Requests of visitors, each on a connection of its own, sent to both edge nodes in turn as a load balancer does that asks
 * each for /readyz twice a second. It repeats nothing.
 */
export async function startTraffic(cluster: Cluster, api: Call, ledger: Ledger, everyMs = 20): Promise<Traffic> {
  const path = '/alive'
  const route = { match_type: 'exact_path', match: path, ...redirectTo('alive') }
  const { status, body } = await api('POST', `/edges/https/${ledger.edgeId}/routes?wait=applied`, route)
  if (status !== 201) throw new Error(`the route of the visitors: ${JSON.stringify(body)}`)
  ledger.entries.push({ id: body.id, path, value: 'alive' })
  const ready = new Set<string>()
  const traffic = { sent: 0, failures: {} as Record<string, number>, tookMs: [] as number[], ready, end }
  let isOver = false
  const check = async (name: (typeof nodes)[number]) => {
    while (!isOver) {
      const url = `http://${cluster.machines[name].address}:8081/readyz`
      const isReady = await fetch(url, { signal: AbortSignal.timeout(1_000) }).then(
        ({ ok }) => ok,
        () => false,
      )
      if (isReady) ready.add(name)
      else ready.delete(name)
      await pause(checkEveryMs)
    }
  }
  const underWay = new Set<Promise<void>>()
  const send = async (name: (typeof nodes)[number] | undefined) => {
    traffic.sent++
    const began = performance.now()
    const outcome = name ? await ask(cluster.machines[name].address, path) : 'no node is ready'
    traffic.tookMs.push(performance.now() - began)
    if (outcome !== targetOf('alive')) traffic.failures[outcome] = (traffic.failures[outcome] ?? 0) + 1
  }
  const visitors = async () => {
    for (let turn = 0; !isOver; turn++) {
      const able = nodes.filter((name) => ready.has(name))
      const sending: Promise<void> = send(able[turn % able.length]).finally(() => underWay.delete(sending))
      underWay.add(sending)
      await pause(everyMs)
    }
    await Promise.all(underWay)
  }
  const checks = nodes.map(check)
  for (let waited = 0; ready.size < nodes.length; waited += 100) {
    if (waited > 60_000) throw new Error('the edge nodes are not ready')
    await pause(100)
  }
  const running = Promise.all([...checks, visitors()])
  async function end(): Promise<void> {
    isOver = true
    await running
  }
  return traffic
}

/** Resolves to where the answer leads, or to what went wrong. */
const ask = (host: string, path: string): Promise<string> =>
  new Promise((resolve) => {
    const options = { host, path, servername: 'app.example', headers: { host: 'app.example' }, agent: false as const }
    const outgoing = request({ ...options, rejectUnauthorized: false, timeout: 10_000 }, (response) => {
      response.resume()
      response.on('error', (error) => resolve(error.message))
      response.on('end', () => resolve(response.headers.location ?? `status ${response.statusCode}`))
    })
    outgoing.on('timeout', () => outgoing.destroy(new Error('no answer in 10 s')))
    outgoing.on('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message))
    outgoing.end()
  })

const failuresOf = ({ failures }: Traffic): string =>
  Object.entries(failures)
    .map(([what, count]) => `${count} × ${what}`)
    .join(', ')

/** Prints what the visitors had. */
export function trafficFaults(traffic: Traffic): string[] {
  const failed = Object.values(traffic.failures).reduce((sum, count) => sum + count, 0)
  console.log(`   ${traffic.sent} requests of visitors, ${failed} failed ${failuresOf(traffic)}`)
  return failed > 0 ? [`${failed} of ${traffic.sent} requests failed at the edge: ${failuresOf(traffic)}`] : []
}
