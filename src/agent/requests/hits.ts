import { isAddressRefused } from '../../distribution/requests.ts'
import type { RequestLine } from './feed.ts'

/** One restriction, or an edge's or route's own policies, that refused a request or would have. */
export type Verdict = {
  readonly outcome: 'refused' | 'warned'
  readonly restriction: string | null
  readonly target: string
  readonly source: string
}

/** What a line adds to the counts of restrictions. Warnings about what is let through have a line of their own. */
export function verdictsOf({ request, isEnd, warnedBy }: RequestLine): Verdict[] {
  const { restriction, source } = request
  const isRefused = isAddressRefused(request)
  const target = request.route ?? request.edge
  if (target === null || (isEnd && !isRefused)) return []
  const warned = warnedBy.map((by): Verdict => ({ outcome: 'warned', restriction: by.restriction, target, source }))
  return isRefused ? [...warned, { outcome: 'refused', restriction, target, source }] : warned
}
