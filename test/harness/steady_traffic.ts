import { once } from 'node:events'
import { createServer } from 'node:http'
import { Agent, request } from 'node:https'
import type { AddressInfo } from 'node:net'
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads'
import { pause } from './poll.ts'

/** What clients met since they were last asked: milliseconds, and every answer that was not 200. */
export type Seen = { latencies: number[]; failures: string[] }
/** Each host has a connection of its own, which stays. */
type Wanted = { httpsPort: number; hosts: string[]; paths: string[]; everyMs: number }

/** An error of the worker rejects it. */
const answer = async <Answer>(worker: Worker): Promise<Answer> => (await once(worker, 'message'))[0]
function ask<Answer>(worker: Worker, message: unknown): Promise<Answer> {
  const answered = answer<Answer>(worker)
  worker.postMessage(message)
  return answered
}

/**
 * Requests at a steady pace through an edge to an upstream, in a thread of their own: what keeps the drill busy must not
 * count as waiting for the edge. The upstream listens from the beginning; requests begin with `start`.
 */
export async function createSteadyTraffic() {
  const worker = new Worker(new URL(import.meta.url), { workerData: 'steady traffic' })
  const upstreamPort = await answer<number>(worker)
  return {
    upstreamPort,
    start: (wanted: Wanted) => ask<void>(worker, wanted),
    take: () => ask<Seen>(worker, 'take'),
    stop: () => worker.terminate(),
  }
}

async function send({ httpsPort, hosts, paths, everyMs }: Wanted, seen: Seen): Promise<void> {
  const agents = hosts.map(() => new Agent({ keepAlive: true, maxSockets: 1 }))
  // Not by due time: when the machine is busy, a late timer of this thread is not the edge's doing.
  const call = async (index: number) => {
    const host = hosts[index % hosts.length]
    const where = { host: '127.0.0.1', port: httpsPort, path: paths[index % paths.length], servername: host }
    const began = performance.now()
    const status = await new Promise<number | string>((resolve) => {
      const agent = agents[index % hosts.length]
      request({ ...where, agent, headers: { host }, rejectUnauthorized: false }, (response) => {
        response.resume().once('end', () => resolve(response.statusCode ?? 0))
      })
        .once('error', (error) => resolve(error.message))
        .end()
    })
    seen.latencies.push(performance.now() - began)
    if (status !== 200) seen.failures.push(`${host}: ${status}`)
  }
  for (let index = 0; ; index++) {
    void call(index)
    await pause(everyMs)
  }
}

if (!isMainThread && workerData === 'steady traffic') {
  const seen: Seen = { latencies: [], failures: [] }
  const upstream = createServer({ keepAliveTimeout: 600_000 }, (_, response) => response.end('ok'))
  upstream.listen(0, '127.0.0.1', () => parentPort?.postMessage((upstream.address() as AddressInfo).port))
  parentPort?.on('message', (message: Wanted | 'take') => {
    if (message === 'take') parentPort?.postMessage({ ...seen })
    else {
      void send(message, seen)
      parentPort?.postMessage(undefined)
    }
    Object.assign(seen, { latencies: [], failures: [] } satisfies Seen)
  })
}
