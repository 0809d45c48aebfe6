import type { EdgeRequest } from '../../distribution/requests.ts'
import type { UpstreamFailure } from '../upstreams/failures.ts'

/** Who refused or warned: null for the restriction when it was the edge's or route's own policies. */
export type Decider = Pick<EdgeRequest, 'restriction' | 'policy' | 'rule'>

/** A request or connection, and what else its line says. */
export type RequestLine = {
  readonly request: EdgeRequest
  /** False for a line that was written ahead of the one at the end, when warnings were decided. */
  readonly isEnd: boolean
  /** The backend of the TCP edge or the route, even if the request did not get there. */
  readonly backend: string | null
  /** Counts the lines of a frontend of a process of HAProxy, so that a gap can be told. */
  readonly sequence: number
  readonly process: number
  /** All that warned; the request itself names the first. */
  readonly warnedBy: readonly Decider[]
  readonly failure: UpstreamFailure | undefined
}

export type RequestListener = (request: EdgeRequest, line: RequestLine) => void

/**
 * From the one reader of lines to all who want to know of requests. Listeners have to be quick, must not throw, and bound
 * what they keep themselves: there may be tens of thousands of requests in a second.
 */
export function createRequestFeed() {
  const atEnd = new Set<RequestListener>()
  const atAll = new Set<RequestListener>()
  const counts = { allowed: 0, refused: 0, warned: 0, limited: 0, failed: 0 }
  const listen = (set: Set<RequestListener>, listener: RequestListener) => {
    set.add(listener)
    return () => void set.delete(listener)
  }
  return {
    /** Each request and connection once, when it has ended. Returns how to end the subscription. */
    subscribe: (listener: RequestListener): (() => void) => listen(atEnd, listener),
    /** Also the lines that were written ahead. */
    subscribeToLines: (listener: RequestListener): (() => void) => listen(atAll, listener),
    publish(line: RequestLine): void {
      for (const listener of atAll) listener(line.request, line)
      if (!line.isEnd) return
      counts[line.request.outcome]++
      for (const listener of atEnd) listener(line.request, line)
    },
    counts: (): Readonly<typeof counts> => counts,
  }
}
export type RequestFeed = ReturnType<typeof createRequestFeed>
