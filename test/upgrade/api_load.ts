import { pause } from '../harness/poll.ts'

export type ApiLoad = {
  /** As a proxy does when a process is ready, or about to end: later requests go elsewhere. Resolves when earlier ones have ended. */
  sendTo: (origin: string) => Promise<void>
  stop: () => Promise<{ sent: number; failures: Record<string, number>; slowestMs: number }>
}

/** Reads and writes of one API client, one after the other, without a pause longer than `everyMs`. */
export function startApiLoad(
  first: string,
  token: string,
  uris: { read: string; write: string },
  everyMs: number,
): ApiLoad {
  let [origin, isOver] = [first, false]
  let inFlight = Promise.resolve()
  const observed = { sent: 0, failures: {} as Record<string, number>, slowestMs: 0 }
  const call = (...request: Parameters<typeof send>): Promise<void> => {
    inFlight = send(...request)
    return inFlight
  }
  const send = async (method: string, path: string, body?: object): Promise<void> => {
    const began = performance.now()
    const outcome = await callApi(origin, token, method, path, body).then(
      ({ status, text }) => (status === 200 ? '' : `${method} ${status} ${/ERR_\w+/.exec(text)?.[0] ?? ''}`),
      (error: Error) => `${method} ${(error.cause as Error | undefined)?.message ?? error.message}`,
    )
    observed.sent++
    observed.slowestMs = Math.max(observed.slowestMs, performance.now() - began)
    if (outcome) observed.failures[outcome] = (observed.failures[outcome] ?? 0) + 1
  }
  const running = (async () => {
    for (let round = 0; !isOver; round++) {
      await call('GET', uris.read)
      await call('PATCH', uris.write, { description: `round ${round}` })
      await pause(everyMs)
    }
  })()
  return {
    async sendTo(next) {
      origin = next
      await inFlight
    },
    async stop() {
      isOver = true
      await running
      return observed
    },
  }
}

/** Without the checks of the test client, which knows only the responses of this version. */
export async function callApi(origin: string, token: string, method: string, path: string, body?: object) {
  const response = await fetch(origin + path, {
    method,
    headers: {
      authorization: `Bearer ${token}`,
      'service-version': '2',
      ...(body && { 'content-type': 'application/json' }),
    },
    ...(body && { body: JSON.stringify(body) }),
  })
  return { status: response.status, headers: response.headers, text: await response.text() }
}
