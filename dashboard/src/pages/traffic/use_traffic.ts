import { useCallback, useEffect, useRef, useState } from 'react'
import { answerOf, api } from '../../api/client.ts'
import { appendBounded, merged, mostRows, type Request } from './log.ts'
import { type StreamFilter, type StreamState, watchRequests } from './stream.ts'

export type Filter = StreamFilter & { status_class?: '1xx' | '2xx' | '3xx' | '4xx' | '5xx' } & Period
/** A past period, such as the hour of a bar, for which no stream is opened. */
type Period = { since?: string; until?: string }

/** Feels immediate, and limits rendering at a thousand requests per second. */
const drawMs = 250
/** A hidden tab closes its stream, because an account has few of them. */
const hiddenMs = 60_000

export type Traffic = {
  rows: readonly Request[]
  state: StreamState | 'past'
  /** Why the stream cannot be opened or stored requests cannot be read. */
  problem: unknown
  isLoading: boolean
  /** Requests that arrived while the rows are frozen. */
  waiting: number
  /** Arrived too fast to be sent. */
  dropped: number
  /** Over quota, so they were not stored. */
  notKept: number
  hasOlder: boolean
  readOlder: () => Promise<void>
  readAgain: () => void
}

/** Stored and live requests as one list. `isHeld`: buffers new ones. */
export function useTraffic(filter: Filter, isHeld: boolean): Traffic {
  const key = JSON.stringify(filter)
  const [log, setLog] = useState(emptyLog)
  const [state, setState] = useState<{ stream: StreamState; problem?: unknown }>({ stream: 'connecting' })
  const [round, setRound] = useState(0)
  const waiting = useRef<Request[]>([])
  const isShown = useIsShown()
  const isPast = filter.until !== undefined

  const addKept = useCallback(async (asked: Filter, before_id?: string, isCurrent: () => boolean = () => true) => {
    const query = { ...asked, limit: 100, ...(before_id && { before_id }) }
    const { requests, next_page_uri, dropped } = await answerOf(api.GET('/requests', { params: { query } }))
    if (!isCurrent()) return
    setLog((before) => ({
      ...before,
      rows: merged(before.rows, requests),
      notKept: dropped,
      isLoading: false,
      // After a broken connection, only the latest are read again; whether older ones exist is already known.
      hasOlder: before.oldest && !before_id ? before.hasOlder : next_page_uri !== null,
      oldest: before_id || !before.oldest ? requests.at(-1)?.id : before.oldest,
    }))
  }, [])

  // biome-ignore lint/correctness/useExhaustiveDependencies: the key stands for the filter, and the round for another try.
  useEffect(() => {
    if (!isShown) return
    let isCurrent = true
    const fail = (problem: unknown) => {
      if (isCurrent) setState((before) => ({ ...before, problem }))
      setLog((before) => ({ ...before, isLoading: false }))
    }
    let hasRead = false
    const readKept = () => {
      hasRead = true
      addKept(filter, undefined, () => isCurrent).catch(fail)
    }
    setState({ stream: 'connecting' })
    const { since: _, until: __, status_class, ...watched } = filter
    const stop = isPast
      ? () => {}
      : watchRequests(watched, {
          onState(stream, problem) {
            setState({ stream, problem })
            // Reads stored requests once the stream is open, so that none is missed in between, and again after a gap.
            // Even if the stream cannot be opened.
            if (stream === 'live' || !hasRead) readKept()
          },
          onRequest(request) {
            if (isOfClass(request, status_class)) appendBounded(waiting.current, request)
          },
          onDropped: (count) => setLog((before) => ({ ...before, dropped: before.dropped + count })),
        })
    if (isPast) readKept()
    return () => {
      isCurrent = false
      stop()
    }
  }, [key, isPast, isShown, round, addKept])

  // biome-ignore lint/correctness/useExhaustiveDependencies: another filter means another list.
  useEffect(() => {
    waiting.current = []
    setLog(emptyLog)
  }, [key])

  useEffect(() => {
    const draw = () => {
      const { length } = waiting.current
      if (isHeld || length === 0) return setLog((before) => withWaiting(before, length))
      const arrived = waiting.current
      waiting.current = []
      setLog((before) => ({ ...before, rows: merged(before.rows, arrived), waiting: 0, isLoading: false }))
    }
    draw()
    const timer = setInterval(draw, drawMs)
    return () => clearInterval(timer)
  }, [isHeld])

  return {
    ...log,
    state: isPast ? 'past' : state.stream,
    problem: state.problem,
    hasOlder: log.hasOlder && log.rows.length < mostRows,
    readOlder: () => addKept(filter, log.oldest),
    readAgain: () => setRound((before) => before + 1),
  }
}

type Log = Pick<Traffic, 'rows' | 'waiting' | 'dropped' | 'notKept' | 'hasOlder' | 'isLoading'> & {
  oldest: string | undefined
}
const emptyLog: Log = {
  rows: [],
  waiting: 0,
  dropped: 0,
  notKept: 0,
  hasOlder: false,
  isLoading: true,
  oldest: undefined,
}

const withWaiting = (log: Log, waiting: number): Log => (log.waiting === waiting ? log : { ...log, waiting })

/** Filtered here, because the stream has no such filter. */
const isOfClass = ({ status_code }: Request, wanted: Filter['status_class']): boolean =>
  wanted === undefined || (status_code !== null && String(status_code).startsWith(wanted.slice(0, 1)))

/** False after the tab has been hidden for a while. */
function useIsShown(): boolean {
  const [isShown, setShown] = useState(true)
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout> | undefined
    const look = () => {
      clearTimeout(timer)
      if (document.visibilityState === 'visible') setShown(true)
      else timer = setTimeout(() => setShown(false), hiddenMs)
    }
    document.addEventListener('visibilitychange', look)
    return () => {
      clearTimeout(timer)
      document.removeEventListener('visibilitychange', look)
    }
  }, [])
  return isShown
}
