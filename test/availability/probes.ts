import type pg from 'pg'
import { type Cluster, type Database, databases } from './cluster.ts'
import { pause } from './wait.ts'

type Probe = { node: Database; number: number; sentAt: number; at: number }

/**
 * Writes to both servers of PostgreSQL all the time, over their sockets, which no fault of the network cuts: what one of
 * them acknowledges after another one has become the primary would be a second primary.
 */
export function startProbes(cluster: Cluster) {
  const acknowledged: Probe[] = []
  const beganAt = Date.now()
  let isOver = false
  const write = async (node: Database) => {
    let client: pg.Client | undefined
    for (let number = beganAt; !isOver; number++) {
      client ??= await cluster.onSocket(node, 3_000)
      const sentAt = Date.now()
      try {
        await client?.query('insert into probes values ($1, $2)', [node, number % 2 ** 31])
        if (client) acknowledged.push({ node, number: number % 2 ** 31, sentAt, at: Date.now() })
      } catch {
        void client?.end().catch(() => {})
        client = undefined
      }
      await pause(client ? 200 : 500)
    }
    void client?.end().catch(() => {})
  }
  const writing = Promise.all(databases.map(write))
  const timelineAtFirst = timeline(cluster)
  return {
    async end(): Promise<{ faults: string[]; figures: string }> {
      isOver = true
      await writing
      const inOrder = acknowledged.toSorted((a, b) => a.at - b.at)
      const switches = inOrder.filter(({ node }, at) => at > 0 && node !== inOrder[at - 1]?.node).length
      const promotions = (await timeline(cluster)) - (await timelineAtFirst)
      const lost = await missing(cluster, acknowledged)
      return {
        figures: `${acknowledged.length} direct writes acknowledged, ${switches} changes of the primary, ${promotions} promotions`,
        faults: [
          ...lost.map(({ node, number }) => `lost: the write ${number} that ${node} acknowledged`),
          ...(switches > promotions ? [`two primaries: ${switches} changes with ${promotions} promotions`] : []),
        ],
      }
    },
  }
}

async function onPrimary<Row>(cluster: Cluster, statement: string, values: unknown[] = []): Promise<Row[]> {
  for (let tries = 0; tries < 200; tries++) {
    const name = await cluster.primary()
    const client = name && (await cluster.onSocket(name, 10_000))
    if (client)
      try {
        return (await client.query(statement, values)).rows as Row[]
      } catch {
        // It is about to be another one.
      } finally {
        void client.end().catch(() => {})
      }
    await pause(500)
  }
  throw new Error('there is no primary')
}

async function timeline(cluster: Cluster): Promise<number> {
  const statement = `select ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::int as timeline`
  const [row] = await onPrimary<{ timeline: number }>(cluster, statement)
  return row?.timeline ?? 0
}

async function missing(cluster: Cluster, acknowledged: readonly Probe[]): Promise<Probe[]> {
  const rows = await onPrimary<{ node: string; number: number }>(cluster, 'select node, number from probes')
  const there = new Set(rows.map(({ node, number }) => `${node} ${number}`))
  return acknowledged.filter(({ node, number }) => !there.has(`${node} ${number}`))
}
