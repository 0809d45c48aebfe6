import type { EdgeRequest } from '../../distribution/requests.ts'
import type { UpstreamFailure } from '../upstreams/failures.ts'

/** Who refused or warned. The restriction is null for the edge's or route's own policies. */
export type Decider = Pick<EdgeRequest, 'restriction' | 'policy' | 'rule'>

/** A request or connection, and the other fields of its line. */
export type RequestLine = {
  readonly request: EdgeRequest
  /** False for an early line, written when warnings were decided. Another line follows at the end. */
  readonly isEnd: boolean
  /** The backend of the TCP edge or route, even if the request did not reach it. */
  readonly backend: string | null
  /** Numbers the lines of a frontend in a HAProxy process, so that gaps show. */
  readonly sequence: number
  readonly process: number
  /** Everything that warned; the request itself names the first. */
  readonly warnedBy: readonly Decider[]
  readonly failure: UpstreamFailure | undefined
}

export type RequestListener = (request: EdgeRequest, line: RequestLine) => void

/**
 * Distributes requests from the line reader to all subscribers. Listeners must be fast, must not throw, and must bound
 * their own memory: there may be tens of thousands of requests per second.
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
    /** Receives each finished request and connection once. Returns the function that unsubscribes. */
    subscribe: (listener: RequestListener): (() => void) => listen(atEnd, listener),
    /** Includes early lines. */
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
