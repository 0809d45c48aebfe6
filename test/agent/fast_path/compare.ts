import type { Scope } from '../../harness/control_plane.ts'
import { poll } from '../../harness/poll.ts'
import { backendTotal, type Edge } from '../proxy_harness.ts'
import { createClient, type Outcome } from './clients.ts'
import { type GeneratedRequest, generate } from './requests.ts'
import { startWorlds } from './world.ts'

export type Difference = { request: GeneratedRequest; fast: Outcome; careful: Outcome }
export type Comparison = {
  differences: Difference[]
  /** How many requests were answered with each status. */
  statuses: Map<string, number>
  /** Which share of those that reached the upstream did so on the fast path. */
  fastShare: number
  /** How many reached the upstream, and what was reported about refusals and warnings, on either side. */
  reached: { fast: number; careful: number }
  events: { fast: string[]; careful: string[] }
}

/** Sends the same generated requests to a proxy with a fast path and to one without. */
export async function comparePaths(scope: Scope, count: number, workers = 12): Promise<Comparison> {
  const { fast, careful } = await startWorlds(scope)
  const differences: Difference[] = []
  const statuses = new Map<string, number>()
  let next = 0
  const work = async () => {
    const clients = { fast: createClient(fast.edge.httpsPort), careful: createClient(careful.edge.httpsPort) }
    for (let index = next++; index < count && differences.length < 20; index = next++) {
      const request = generate(index)
      const outcomes = await Promise.all([clients.fast.send(request), clients.careful.send(request)])
      const [one, two] = outcomes.map(comparable) as [string, string]
      const status = statusOf(one)
      statuses.set(status, (statuses.get(status) ?? 0) + 1)
      if (one !== two) differences.push({ request, fast: one, careful: two })
    }
    clients.fast.close()
    clients.careful.close()
  }
  await Promise.all(Array.from({ length: workers }, work))
  const reached = { fast: fast.reached(), careful: careful.reached() }
  // HAProxy reports a request after it has answered it.
  await poll(() => fast.edge.events.length === careful.edge.events.length, Boolean, { withinSeconds: 5 }).catch(
    () => {},
  )
  const events = { fast: eventsOf(fast.edge), careful: eventsOf(careful.edge) }
  const fastTotals = ['https_plain', 'https_plain_changed'].map((name) => backendTotal(fast.edge, 'stot', name))
  const fastShare = (await Promise.all(fastTotals)).reduce((sum, count) => sum + count, 0) / reached.fast
  return { differences, statuses, fastShare, reached, events }
}

/** Without what differs between any two requests: the id, and the time in it. */
const comparable = (outcome: Outcome): string =>
  outcome.replaceAll(/[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}/g, '<id>')

const statusOf = (outcome: string): string =>
  /^(?:HTTP\/1\.1 (\d+)|\{":status":(\d+))/.exec(outcome)?.slice(1).join('') || 'none'

const eventsOf = ({ events }: Edge): string[] => events.map((event) => JSON.stringify(event)).sort()
