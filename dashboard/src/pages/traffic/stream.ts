import { eventsOf } from '../../../../src/kernel/server_sent_events.ts'
import { api } from '../../api/client.ts'
import { Problem } from '../../api/problem.ts'
import type { Request } from './log.ts'

export type StreamFilter = { edge_id?: string; outcome?: Request['outcome']; source_ip?: string }
/** `refused`: this session may not watch, so retrying does not help. */
export type StreamState = 'connecting' | 'live' | 'lost' | 'crowded' | 'refused'
type Listener = {
  onState: (state: StreamState, problem?: Problem) => void
  onRequest: (request: Request) => void
  onDropped: (count: number) => void
}

const firstRetryMs = 1_000
const lastRetryMs = 15_000
/** The service sends something every ten seconds; a longer silence means a broken stream. */
const silenceMs = 25_000

/** Watches until stopped. Reconnects when the stream ends, breaks or falls silent. */
export function watchRequests(filter: StreamFilter, listener: Listener): () => void {
  const stopped = new AbortController()
  const run = async () => {
    for (let failures = 0; !stopped.signal.aborted; ) {
      const outcome = await once(filter, listener, stopped.signal)
      if (stopped.signal.aborted || outcome === 'refused') return
      failures = outcome === 'was live' ? 0 : failures + 1
      await pause(Math.min(lastRetryMs, firstRetryMs * 2 ** failures), stopped.signal)
    }
  }
  run()
  return () => stopped.abort()
}

type Outcome = 'was live' | 'never live' | 'refused'

async function once(filter: StreamFilter, listener: Listener, stopped: AbortSignal): Promise<Outcome> {
  const connection = new AbortController()
  const end = () => connection.abort()
  stopped.addEventListener('abort', end)
  let silence = setTimeout(end, silenceMs)
  let wasLive = false
  try {
    const { data } = await api.GET('/requests/stream', {
      params: { query: filter },
      headers: { Accept: 'text/event-stream' },
      parseAs: 'stream',
      signal: connection.signal,
    })
    if (!data) throw new Error('no stream')
    wasLive = true
    listener.onState('live')
    const heard = () => {
      clearTimeout(silence)
      silence = setTimeout(end, silenceMs)
    }
    for await (const { event, data: told } of eventsOf(data, heard)) {
      if (event === 'request') listener.onRequest(told as Request)
      else if (event === 'dropped') listener.onDropped(Number(told.count))
      else if (event === 'end' && told.reason === 'unauthorized') {
        listener.onState('refused')
        return 'refused'
      }
    }
    listener.onState('lost')
  } catch (error) {
    if (stopped.aborted) return 'never live'
    const status = error instanceof Problem ? error.status : 0
    if (error instanceof Problem && (status === 400 || status === 401 || status === 403 || status === 404)) {
      listener.onState('refused', error)
      return 'refused'
    }
    listener.onState(status === 429 ? 'crowded' : 'lost')
  } finally {
    clearTimeout(silence)
    stopped.removeEventListener('abort', end)
  }
  return wasLive ? 'was live' : 'never live'
}

/** Ends early when the browser is online again. */
const pause = (ms: number, stopped: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer)
      window.removeEventListener('online', end)
      stopped.removeEventListener('abort', end)
      resolve()
    }
    const timer = setTimeout(end, ms)
    window.addEventListener('online', end)
    stopped.addEventListener('abort', end)
  })
