import type { EdgeProcess } from '../harness/edge.ts'
import { poll } from '../harness/poll.ts'
import type { Line } from './access_log.ts'
import type { Tenant } from './accounts.ts'
import type { TcpVisit } from './requests.ts'
import type { Counted, Expected, expectTcp } from './specification.ts'

export type Tally = ReturnType<typeof createTally>
type Counts = Map<string, number>
const add = (counts: Counts, key: string | undefined, by = 1) => {
  if (key !== undefined) counts.set(key, (counts.get(key) ?? 0) + by)
}

type Noted = Pick<Expected, 'counted' | 'served' | 'hits' | 'warnings'>

/** What the specification expects to be counted, and where a report says something else. */
export function createTally() {
  const [hits, routes]: [Counts, Counts] = [new Map(), new Map()]
  /** By edge or route, because deleting one deletes its counts. */
  const [refused, warned]: [Counts, Counts] = [new Map(), new Map()]
  const outcomes: Record<string, number> = {}
  const [connectionsExpected, connectionsLogged]: [Counts, Counts] = [new Map(), new Map()]
  const [handshakesExpected, handshakesLogged]: [Counts, Counts] = [new Map(), new Map()]
  const note = ({ counted, served, hits: ruleIds, warnings }: Noted) => {
    outcomes[counted.outcome] = (outcomes[counted.outcome] ?? 0) + 1
    for (const id of ruleIds) add(hits, id)
    const target = counted.route ?? counted.edge
    // Of IP policies: filters have no part in /ip_activity.
    const isOfPolicies = counted.reason === 'policy' || counted.reason === 'restriction'
    if (counted.outcome === 'refused' && isOfPolicies) add(refused, target)
    if (warnings) add(warned, served ?? target, warnings)
  }
  return {
    requests: 0,
    connections: 0,
    handshakes: 0,
    linesRead: 0,
    outcomes,
    /** Takes lines of the access log: requests by their id, connections into their count. */
    read(lines: readonly Line[]): Map<string, Line> {
      this.linesRead += lines.length
      for (const line of lines) {
        const isTcp = line['network.protocol.name'] === 'tcp'
        const isHandshake = /^client_certificate_/.test(String(line['gatehouse.reason']))
        const into = isHandshake ? handshakesLogged : isTcp ? connectionsLogged : undefined
        if (into) add(into, keyOf(line['client.address'] as string, countedOf(line)))
      }
      return new Map(lines.map((line) => [line['gatehouse.request.id'] as string, line]))
    },
    count(expected: Expected): void {
      this.requests++
      add(routes, expected.counted.route)
      note(expected)
    },
    countConnection({ source }: TcpVisit, expected: ReturnType<typeof expectTcp>): void {
      if (!expected) return
      this.connections++
      note(expected)
      add(connectionsExpected, keyOf(source, expected.counted))
    },
    /** One that the edge refused for the certificate of the client. */
    countHandshake(source: string, counted: Counted): void {
      this.handshakes++
      outcomes.handshakes = (outcomes.handshakes ?? 0) + 1
      add(handshakesExpected, keyOf(source, counted))
    },
    handshakeDifferences: () => differing('refused handshakes in the access log', handshakesExpected, handshakesLogged),
    connectionDifferences: () => differing('TCP connections in the access log', connectionsExpected, connectionsLogged),
    async differences(edge: EdgeProcess, tenants: readonly Tenant[]): Promise<string[]> {
      const existing = new Set(
        tenants
          .flatMap(({ model: { tcp, https } }) => [...tcp, ...https.flatMap(({ routes }) => routes)])
          .map(({ id }) => id),
      )
      const ofExisting = (counts: Counts): Counts => new Map([...counts].filter(([id]) => existing.has(id)))
      const reported = async () => {
        const [foundHits, foundRefused, foundWarned]: [Counts, Counts, Counts] = [new Map(), new Map(), new Map()]
        for (const { as, model } of tenants) {
          for (const edge of (await as('GET', '/ip_activity?hours=2')).body.edges) {
            add(foundRefused, edge.target.id, edge.refused)
            add(foundWarned, edge.target.id, edge.warned)
          }
          for (const policy of model.policies.keys())
            for (const { id, hits } of (await as('GET', `/ip_policies/${policy}/rule_evidence`)).body.rule_evidence)
              foundHits.set(id, hits)
        }
        const known = new Map([...hits].filter(([id]) => foundHits.has(id)))
        return [
          ...differing('requests of routes in /metrics', routes, await readMetrics(edge)),
          ...differing('hits of rules', known, foundHits),
          ...differing('refusals of edges and routes', ofExisting(refused), foundRefused),
          ...differing('warnings of edges and routes', ofExisting(warned), foundWarned),
        ]
      }
      return poll(reported, (faults) => faults.length === 0, { withinSeconds: 8, everyMs: 500 }).catch(reported)
    },
  }
}

const keyOf = (source: string, { outcome, reason, edge, restriction, policy, rule }: Counted) =>
  [
    source,
    outcome,
    reason,
    edge,
    ...(outcome === 'allowed' || outcome === 'failed' ? [] : [restriction, policy, rule]),
  ].join(' ')
const countedOf = (line: Line) =>
  Object.fromEntries(
    ['outcome', 'reason', 'edge', 'restriction', 'policy', 'rule'].map((field) => [field, line[`gatehouse.${field}`]]),
  ) as Counted

function differing(what: string, expected: Counts, found: Counts): string[] {
  return [...new Set([...expected.keys(), ...found.keys()])]
    .map((key) => ({ key, wanted: expected.get(key) ?? 0, seen: found.get(key) ?? 0 }))
    .filter(({ wanted, seen }) => wanted !== seen)
    .map(({ key, wanted, seen }) => `${what}, ${key}: expected ${wanted}, seen ${seen}`)
}

/** Requests of each route, over all classes of status. */
async function readMetrics({ statusUrl }: EdgeProcess): Promise<Counts> {
  const counts: Counts = new Map()
  for (const line of (await (await fetch(`${statusUrl}/metrics`)).text()).split('\n')) {
    const [, route, value] = /^gatehouse_edge_route_requests_total\{.*route="(\w+)".*\} (\d+)$/.exec(line) ?? []
    add(counts, route, Number(value))
  }
  return counts
}
