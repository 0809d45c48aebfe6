import { Agent, request } from 'node:http'
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads'
import { pause } from './poll.ts'

/** What an innocent client met. Milliseconds, in ascending order. */
export type Experience = { latencies: number[]; failures: string[] }
type Wanted = {
  origin: string
  token: string
  path: string
  /** A change instead of a read: it needs a database connection of its own. */
  patch?: unknown
  /** Calls again only when it has been answered: on a machine too busy for one call every 20 ms, no queue builds up. */
  patient?: boolean
}

/**
 * Calls one operation repeatedly in its own thread, so that a busy test does not count as waiting for the
 * service. The returned function stops it and reports what it saw.
 */
export function startBystander(wanted: Wanted): () => Promise<Experience> {
  const worker = new Worker(new URL(import.meta.url), { workerData: wanted })
  const told = new Promise<Experience>((resolve, reject) => {
    worker.once('message', resolve)
    worker.once('error', reject)
  })
  // A test that has failed does not stop it.
  worker.unref()
  return () => {
    worker.ref()
    worker.postMessage('stop')
    return told
  }
}

export const percentile = ({ latencies }: Experience, share: number): number =>
  latencies[Math.min(latencies.length - 1, Math.floor(latencies.length * share))] ?? Number.NaN

/** One every so often, whether the one before was answered or not unless patient: one slow answer must not hide the next ones. */
const everyMs = 20

async function watch({ origin, token, path, patch, patient }: Wanted): Promise<void> {
  const agent = new Agent({ keepAlive: true })
  const headers = { Authorization: `Bearer ${token}`, 'Service-Version': '2', 'Content-Type': 'application/json' }
  const method = patch === undefined ? 'GET' : 'PATCH'
  const { latencies, failures }: Experience = { latencies: [], failures: [] }
  let running = true
  parentPort?.once('message', () => {
    running = false
  })
  const call = async (due: number) => {
    const status = await new Promise<number | string>((resolve) => {
      request(`${origin}${path}`, { agent, headers, method }, (response) => {
        response.resume().once('end', () => resolve(response.statusCode ?? 0))
      })
        .once('error', (error) => resolve(error.message))
        .end(patch === undefined ? undefined : JSON.stringify(patch))
    })
    latencies.push(performance.now() - due)
    if (status !== 200) failures.push(String(status))
  }
  const calls: Promise<void>[] = []
  for (let due = performance.now(); running; due = patient ? performance.now() + everyMs : due + everyMs) {
    await pause(Math.max(0, due - performance.now()))
    const called = call(Math.max(due, performance.now() - everyMs))
    calls.push(called)
    if (patient) await called
  }
  await Promise.all(calls)
  agent.destroy()
  parentPort?.postMessage({ latencies: latencies.sort((a, b) => a - b), failures } satisfies Experience)
}

if (!isMainThread) await watch(workerData)
