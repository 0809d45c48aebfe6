import { channelsOf } from '../../src/distribution/channels.ts'
import { defaultCellName } from '../../src/kernel/edge/cells.ts'
import type { BucketServer } from '../../src/publisher/bucket/bucket_server.ts'
import type { PublisherDatabase } from '../../src/publisher/database.ts'
import { type Suspicions, watchSuspicions } from '../../src/publisher/nodes/suspicions.ts'
import { type PublisherMetrics, runPublisher } from '../../src/publisher/publisher.ts'
import type { Nats } from './nats.ts'
import type { Node } from './node.ts'
import type { Postgres } from './postgres.ts'
import type { Process, Scheduler } from './scheduler.ts'

/** Parts of a publisher, as a control breaks them. */
export type BrokenPublisher = {
  buckets?: (server: BucketServer) => BucketServer
  database?: (database: PublisherDatabase) => PublisherDatabase
}

type World = { scheduler: Scheduler; nats: Nats; postgres: Postgres; waves: number; broken: BrokenPublisher }
type Listener = (report: { node: string; refusals: unknown[] }, cell: string, answer: () => void) => void

const noMetrics: PublisherMetrics = { published() {}, behind() {}, sent() {}, active() {}, heldBack() {}, stalled() {} }

/** A process of the control plane, with the real publisher. */
export function createControlPlane({ scheduler, nats, postgres, waves, broken }: World, name: string) {
  let process: Process | undefined
  let listeners: Listener[] = []

  return {
    name,
    process: () => process,
    start(): void {
      if (process?.isAlive) return
      const mine = scheduler.start(name)
      process = mine
      listeners = []
      scheduler.tell(name, 'starts')
      const [server, database] = [nats.serverOf(mine), postgres.databaseOf(mine)]
      const nodes = { onReport: (listener: unknown) => void listeners.push(listener as Listener) }
      const suspicions = Array.from({ length: waves }, () => watchSuspicions(nodes, defaultCellName))
      const parts = {
        channels: (wave: number) => channelsOf(defaultCellName, wave),
        database: broken.database?.(database) ?? database,
        nats: nats.connectionOf(mine),
        buckets: broken.buckets?.(server) ?? server,
        isConnected: () => nats.isConnected(mine),
        timing: scheduler.timingOf(mine),
        log: scheduler.logOf(mine),
        metrics: noMetrics,
        context: {},
        suspicions: (wave: number) => suspicions[wave] as Suspicions,
      }
      void runPublisher(parts, mine.ending.signal)
    },
    crash(why = 'is killed'): void {
      if (process) scheduler.crash(process, why)
    },
    /** What a node says reaches every process. */
    hear({ name: node, refusals }: Node): void {
      const mine = process
      if (!mine || !nats.isConnected(mine)) return
      const report = { node, refusals: refusals() }
      scheduler.at(5, mine, () => {
        for (const listener of listeners) listener(report, defaultCellName, () => {})
      })
    },
    recover(): void {
      if (!process) return
      process.pausedUntil = 0
      process.skewMs = 0
    },
  }
}
export type ControlPlane = ReturnType<typeof createControlPlane>
