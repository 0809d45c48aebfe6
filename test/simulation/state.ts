import type { RecordKey } from '../../src/distribution/records.ts'
import type { Uuid } from '../../src/kernel/ids.ts'
import type { OutboxRow } from '../../src/operations/outbox.ts'
import type { Thing } from './postgres.ts'
import type { Rollout } from './rollouts.ts'

/** The position of a publisher in a wave. */
export type Position = { cursor: number; created: string | null; revision: number; resendBelow: number }
/** Changes that accounts made are for all waves, as rollouts let them; the rest is for some. */
export type Row = OutboxRow & { isChange: boolean; waves?: readonly [from: number, to: number] }

export type State = {
  things: Map<RecordKey, Thing>
  outbox: Row[]
  /** By wave. */
  positions: Position[]
  rollouts: Rollout[]
  /** Up to where every change belongs to a rollout, or did. */
  classified: number
  version: number
  /** Everything that each account had, by generation. */
  past: Map<Uuid, { generation: number; things: Map<RecordKey, Thing> }[]>
  /** By wave and account: the last change that it may have. */
  allowed: Map<Uuid, number>[]
  withheld: Map<RecordKey, string>
  /** Accounts that are placed in another cell. */
  elsewhere: Set<Uuid>
}
