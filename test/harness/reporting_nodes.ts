import { mkdtemp } from 'node:fs/promises'
import { join } from 'node:path'
import { connect } from '@nats-io/transport-node'
import { type LocalNats, startNats } from '../../dev/nats.ts'
import { freePort } from '../../dev/ports.ts'
import { type DbPool, one } from '../../src/db/pool.ts'
import { sql } from '../../src/db/sql.ts'
import { defaultChannels, inboxOf, type Report, type UpstreamHealth } from '../../src/distribution/channels.ts'
import { type Id, toUuid } from '../../src/kernel/ids.ts'
import { addSigningKey } from '../../src/publisher/signing_keys.ts'
import { withSecondNode } from '../hostile/stolen_node.ts'
import { type ControlPlane, type Scope, secretsBox, startControlPlane } from './control_plane.ts'
import { pause, poll } from './poll.ts'
import { testRun } from './test_run.ts'

type NodeName = 'edge-1' | 'edge-2'
export type Reported = { report: (node: NodeName, fields: Partial<Report> | undefined) => Promise<void> }
export type HealthInstallation = ControlPlane & Reported & { origin: string; nats: LocalNats }

/** Further than any change. */
const everything = 1_000_000

/** A control plane with NATS, and two nodes that say of themselves what a test wants: real reports, without a proxy behind them. */
export async function startFleet(
  scope: Scope,
  more: Record<string, string> = {},
  databaseUrl?: string,
): Promise<HealthInstallation> {
  const folder = await mkdtemp(join(testRun.folder, 'fleet-'))
  const nats = await startNats({ authorization: await withSecondNode(folder) })
  scope.after(() => nats.stop())
  const origin = `http://127.0.0.1:${await freePort()}`
  const env = {
    GATEHOUSE_LISTEN: origin.slice('http://'.length),
    GATEHOUSE_PUBLIC_URL: origin,
    ...nats.controlPlane,
    ...more,
  }
  const plane = await startControlPlane(scope, { env, ...(databaseUrl !== undefined && { databaseUrl }) })
  await addSigningKey(plane.db, secretsBox)
  const startedAt = new Date(Date.now() - 60_000).toISOString()
  const said = new Map<NodeName, Report>()
  const connections = new Map(
    await Promise.all(
      (['edge-1', 'edge-2'] as const).map(async (name) => {
        const connection = await connect({
          ...{ servers: nats.url, user: name, pass: name, inboxPrefix: inboxOf(name) },
          ...{ reconnectTimeWait: 200, maxReconnectAttempts: -1 },
        })
        return [name, connection] as const
      }),
    ),
  )
  let isEnding = false
  const beating = beat()
  scope.after(async () => {
    isEnding = true
    await beating
    await Promise.all([...connections.values()].map((connection) => connection.close()))
  })

  /** As nodes do: what they say, again and again. */
  async function beat(): Promise<void> {
    while (!isEnding) {
      for (const [name, report] of said)
        connections.get(name)?.publish(defaultChannels.reports(name), JSON.stringify({ ...report, health: [] }))
      await pause(500)
    }
  }

  return {
    ...plane,
    ...{ origin, nats },
    /** From now on the node says this; undefined: nothing any more. Resolves when the control plane has taken it in. */
    async report(name, fields) {
      if (fields === undefined) return void said.delete(name)
      const report: Report = {
        ...{ node: name, version: '1', startedAt, applied: everything, records: 1, refusals: [], hits: [] },
        refused: { records: 0, lowest: null, generations: [] },
        certificates: { names: 1, waiting: 0, firstExpiry: null, missing: 0 },
        ...fields,
      }
      said.set(name, report)
      const send = () =>
        connections
          .get(name)
          ?.request(defaultChannels.reports(name), JSON.stringify(report), { timeout: 1_000 })
          .then(
            (answer) => answer.string(),
            (error: Error) => error.message,
          )
      await poll(send, (answer) => answer === 'kept')
      // Counts are written before the answer, and health every two seconds.
      await poll(() => hasHealth(plane.db, name, report.health ?? []))
    },
  }
}

const hasHealth = async (db: DbPool, node: NodeName, health: readonly UpstreamHealth[]): Promise<boolean> => {
  const { left } = await one<{ left: number }>(
    db,
    sql`
    select count(*) as left
    from unnest(${health.map(({ backend }) => toUuid(backend as Id<'bkdst'>))}::uuid[],
      ${health.map(({ address }) => address)}::inet[], ${health.map(({ port }) => port)}::int[],
      ${health.map(({ status }) => status)}::text[]) as s (backend_id, address, port, status)
    left join backend_health h on h.backend_id = s.backend_id and h.node = ${node} and h.address = s.address
      and h.port = s.port
    where coalesce(h.status, 'cleared') <> s.status`,
  )
  return left === 0
}
