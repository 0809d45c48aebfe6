import { isAddressRefused } from '../../distribution/requests.ts'
import type { RequestLine } from './feed.ts'

/** A restriction, or an edge's or route's own policies, that refused a request or would have refused it. */
export type Verdict = {
  readonly outcome: 'refused' | 'warned'
  readonly restriction: string | null
  readonly target: string
  readonly source: string
}

/** The counts of restrictions that a line adds to. A warning about an allowed request has its own line. */
export function verdictsOf({ request, isEnd, warnedBy }: RequestLine): Verdict[] {
  const { restriction, source } = request
  const isRefused = isAddressRefused(request)
  const target = request.route ?? request.edge
  if (target === null || (isEnd && !isRefused)) return []
  const warned = warnedBy.map((by): Verdict => ({ outcome: 'warned', restriction: by.restriction, target, source }))
  return isRefused ? [...warned, { outcome: 'refused', restriction, target, source }] : warned
}
