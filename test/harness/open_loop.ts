import { once } from 'node:events'
import { Agent, request } from 'node:https'
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads'
import type { Scope } from './control_plane.ts'
import { pause } from './poll.ts'

export type Load = {
  /** Begins the number of each request. */
  name?: string
  httpsPort: number
  hosts: readonly string[]
  paths?: readonly string[]
  perSecond: number
  /** Which share is POST; the others are GET. */
  posts?: number
  /** Ends by itself after so many. */
  total?: number
  maxInFlight?: number
  /** Source addresses, in turn. */
  from?: readonly string[]
  /** How long a client waits for an answer. */
  patienceMs?: number
  /** A POST on a connection that was not used for so long may fail: its server may have closed it meanwhile. */
  idleMs?: number
}
export type Observed = {
  sent: number
  answered: number
  /** Milliseconds from when each was due, not from when it could be sent: a stall delays all that were due meanwhile. */
  latencies: number[]
  /** How often each happened, such as `GET 503 ERR_NO_BACKEND`. */
  failures: Record<string, number>
  /** GETs repeated by the client because their kept connection was closed before any answer, as browsers do. */
  repeated: number
  /** POSTs that failed on a connection that was idle for longer than `idleMs`. */
  idle: number
}

/**
 * Requests at a fixed rate, however long those before take, in a thread of their own. Each has a number, in X-Number, that
 * no other has. At most so many are in flight, on connections that are kept; those that then have to wait count as late.
 */
export function startLoad(scope: Scope, load: Load) {
  const worker = new Worker(new URL(import.meta.url), { workerData: { openLoop: load } })
  const finished = once(worker, 'message').then(([observed]) => observed as Observed)
  scope.after(async () => void (await worker.terminate()))
  return {
    /** Resolves when all of `total` are answered. */
    finished,
    /** Sends no more; resolves when all that were sent are answered. */
    stop(): Promise<Observed> {
      worker.postMessage('stop')
      return finished
    },
  }
}

export const failed = ({ failures }: Observed, method = ''): number =>
  Object.entries(failures).reduce((sum, [kind, count]) => sum + (kind.startsWith(method) ? count : 0), 0)

export const describeFailures = ({ failures, repeated }: Observed): string =>
  [
    ...Object.entries(failures).map(([kind, count]) => `${count} × ${kind}`),
    ...(repeated ? [`${repeated} × repeated by the client on another connection`] : []),
  ].join(', ') || 'none'

type Sent = { method: string; host: string; path: string; number: number; localAddress?: string; isRepeated?: boolean }
/** `gapMs`: since the request before on the same connection. */
type Sender = (sent: Sent) => Promise<{ outcome: string; isStale: boolean; gapMs: number }>

/** `outcome` is '200', or what went wrong. */
function createSender({ name = 'load', httpsPort, patienceMs = 15_000, maxInFlight = 256 }: Load): Sender {
  const agents = new Map<string, Agent>()
  const lastSent = new WeakMap<object, number>()
  const agentOf = (name: string) => {
    const known = agents.get(name) ?? new Agent({ keepAlive: true, maxSockets: maxInFlight, scheduling: 'fifo' })
    agents.set(name, known)
    return known
  }
  return ({ method, host, path, number, localAddress, isRepeated }) =>
    new Promise((resolve) => {
      const where = {
        host: '127.0.0.1',
        port: httpsPort,
        path,
        servername: host,
        ...(localAddress && { localAddress }),
      }
      const body = method === 'POST' ? `order ${number}` : undefined
      const headers = { host, 'x-number': `${name}-${number}`, ...(body && { 'content-length': body.length }) }
      // On a new connection, as browsers do: other kept ones may be closed as well.
      const agent = isRepeated ? false : agentOf(`${host} ${localAddress}`)
      const outgoing = request(
        { ...where, method, headers, agent, rejectUnauthorized: false, timeout: patienceMs },
        async (response) => {
          const text = await response.toArray().then(String, (error) => `cut off: ${error.message}`)
          const code = /ERR_\w+|cut off.*/.exec(text)?.[0]
          const outcome = [response.statusCode, code].filter(Boolean).join(' ')
          resolve({ outcome, isStale: false, gapMs: 0 })
        },
      )
      outgoing.on('timeout', () => outgoing.destroy(new Error('no answer')))
      outgoing.on('error', (error: NodeJS.ErrnoException) =>
        resolve({
          outcome: `${error.code ?? error.message} on a ${outgoing.reusedSocket ? 'kept' : 'new'} connection`,
          isStale: outgoing.reusedSocket && error.code === 'ECONNRESET',
          gapMs,
        }),
      )
      let gapMs = 0
      outgoing.once('socket', (socket) => {
        const now = performance.now()
        gapMs = now - (lastSent.get(socket) ?? now)
        lastSent.set(socket, now)
      })
      outgoing.end(body)
    })
}

async function run(load: Load): Promise<Observed> {
  const { hosts, paths = ['/'], perSecond, posts = 0, total = Number.POSITIVE_INFINITY, maxInFlight = 256, from } = load
  const send = createSender(load)
  const observed: Observed = { sent: 0, answered: 0, latencies: [], failures: {}, repeated: 0, idle: 0 }
  let [isOver, inFlight] = [false, 0]
  parentPort?.once('message', () => {
    isOver = true
  })
  const call = async (number: number, due: number): Promise<void> => {
    // Spread evenly: of every hundred, the first so many.
    const method = (number * 37) % 100 < posts * 100 ? 'POST' : 'GET'
    const at = { host: hosts[number % hosts.length] ?? '', path: paths[number % paths.length] ?? '' }
    const sent = { method, ...at, number, ...(from && { localAddress: from[number % from.length] ?? '' }) }
    let { outcome, isStale, gapMs } = await send(sent)
    if (isStale && method === 'GET') {
      observed.repeated++
      ;({ outcome } = await send({ ...sent, isRepeated: true }))
    }
    observed.latencies.push(performance.now() - due)
    if (outcome === '200') observed.answered++
    else if (isStale && method === 'POST' && gapMs > (load.idleMs ?? Number.POSITIVE_INFINITY)) observed.idle++
    else observed.failures[`${method} ${outcome}`] = (observed.failures[`${method} ${outcome}`] ?? 0) + 1
    inFlight--
  }
  const began = performance.now()
  while (!isOver && observed.sent < total) {
    const due = began + (observed.sent * 1_000) / perSecond
    if (due > performance.now() || inFlight >= maxInFlight) await pause(1)
    else {
      inFlight++
      void call(observed.sent++, due)
    }
  }
  while (inFlight > 0) await pause(5)
  return observed
}

if (!isMainThread && workerData?.openLoop) parentPort?.postMessage(await run(workerData.openLoop))
