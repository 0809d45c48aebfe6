import type { RecordKey, RecordKind } from '../distribution/records.ts'
import type { Signer, TrustedKeys } from '../distribution/signature.ts'
import type { Uuid } from '../kernel/ids.ts'
import type { OutboxRow } from '../operations/outbox.ts'
import type { Changed, CompileContext } from './records/changed.ts'
import type { Compiled } from './records/compile.ts'
import type { HeldKey, Joining, Previous, Unassigned } from './waves/rollout.ts'

/** Identifies a bucket by its creation time, with the last acknowledged revision. */
export type LastWrite = { created: string | null; revision: number }

/** Existing records that cannot be sent, by key. */
export type Reasons = ReadonlyMap<RecordKey, string>

/** Uses the session that holds the lock. When that ends, another process publishes, and every call here fails. */
export type LockedDatabase = {
  signer: () => Promise<Signer>
  /** The generation up to which the bucket has everything, and the last write. */
  state: () => Promise<LastWrite & { cursor: number }>
  /**
   * A lost bucket also loses deletions that a node may have missed. Everything that exists is therefore sent again under
   * a new generation, which tells nodes what is left.
   */
  noteBucket: (created: string) => Promise<void>
  moveCursor: (settled: number, revision: number) => Promise<void>
  /** The next changes in order, and the generation up to which all changes are known. A generation is never split. */
  outboxAfter: (generation: number, limit: number) => Promise<{ rows: OutboxRow[]; settled: number }>
  withheld: () => Promise<Reasons>
  /** `sent` are no longer withheld; `kept` are, with their reasons. */
  noteWithheld: (sent: readonly RecordKey[], kept: readonly OutboxRow[], reasons: Reasons) => Promise<void>
  /** The same for the state and changes of another wave than the first. */
  ofWave: (wave: number) => LockedDatabase
  waves: () => Promise<number>
  /** Call it before the first wave is published. Releases what its nodes received while the cell had only one wave. */
  beginRollouts: () => Promise<void>
  unassigned: (accounts: readonly Uuid[]) => Promise<Unassigned>
  /**
   * Stores all of it, and that everything up to `settled` belongs to a rollout. False if a rollout was released or
   * halted meanwhile.
   */
  hold: (holding: Holding) => Promise<boolean>
}

export type HeldRecords = {
  readonly held: ReadonlyMap<RecordKey, Previous>
  /** Records with a committed change that belongs to no rollout yet. */
  readonly unsettled: ReadonlySet<RecordKey>
  /** For some record, the version that the wave should have is unknown. */
  readonly hasLost: boolean
}

export type Holding = {
  readonly version: number
  readonly settled: number
  readonly joining: readonly Joining[]
  /** The records of `joining` before their changes. */
  readonly previous: ReadonlyMap<RecordKey, Previous>
}

/** All database operations for publishing in one cell, passed in so that tests can simulate the database. */
export type PublisherDatabase = {
  signer: () => Promise<Signer>
  trustedKeys: () => Promise<TrustedKeys>
  /**
   * Waits some seconds for this process's turn, and does nothing if it does not come. Rejects when the session ends or
   * `giveUp` aborts. `end` asks the work to stop.
   */
  holdingLock: (
    until: { leave: AbortSignal; giveUp: AbortSignal },
    work: (locked: LockedDatabase, end: AbortSignal) => Promise<void>,
  ) => Promise<void>
  noteExpiredRules: (since: number, now: number) => Promise<void>
  /** The current state of each resource; null if it is not in the cell. Leaves out those that cannot be read or sent. */
  compile: (changed: readonly Changed[], now: number, context: CompileContext) => Promise<Compiled[]>
  settled: () => Promise<number>
  /** Entries of the bucket below this generation must be sent again. */
  resendBelow: () => Promise<number>
  /** Everything that has a record in the cell, page by page. */
  living: (kind: RecordKind) => AsyncIterable<Changed[]>
  /**
   * Every record of the account in any of its cells, and those changed since a generation: these may be deleted by now,
   * under a generation that is not sent yet.
   */
  recordsOf: (accountId: Uuid, after: number) => Promise<RecordKey[]>
  /**
   * Accounts that were placed in or removed from the cell since a generation, with the last generation of such a change.
   */
  moves: (after: number) => Promise<ReadonlyMap<Uuid, number>>
  changedSince: (inBucket: ReadonlyMap<RecordKey, { generation: number }>) => Promise<Set<RecordKey>>
  /** Writes the changes into the cell's outbox under one generation, and resolves to it. */
  enqueue: (changed: readonly Changed[]) => Promise<number>
  /** The same for the state and changes of one of several waves. */
  ofWave: (wave: number) => PublisherDatabase
  /** The records that a wave should have in their version before a rollout. */
  held: (wave: number, keys: readonly RecordKey[]) => Promise<HeldRecords>
  heldKeys: (wave: number) => Promise<HeldKey[]>
}
