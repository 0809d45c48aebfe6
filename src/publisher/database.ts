import type { RecordKey, RecordKind } from '../distribution/records.ts'
import type { Signer, TrustedKeys } from '../distribution/signature.ts'
import type { Uuid } from '../kernel/ids.ts'
import type { OutboxRow } from '../operations/outbox.ts'
import type { Changed, CompileContext } from './records/changed.ts'
import type { Compiled } from './records/compile.ts'
import type { HeldKey, Joining, Previous, Unassigned } from './waves/rollout.ts'

/** A bucket by when it was created, and its last acknowledged revision. */
export type LastWrite = { created: string | null; revision: number }

/** Records that exist and cannot be sent, by key. */
export type Reasons = ReadonlyMap<RecordKey, string>

/** On the session that holds the lock: when that ends, another process publishes, and nothing here succeeds any more. */
export type LockedDatabase = {
  signer: () => Promise<Signer>
  /** Up to which generation everything is in the bucket, and what was last written there. */
  state: () => Promise<LastWrite & { cursor: number }>
  /**
   * A lost bucket takes deletions with it that a node may not have heard of. So everything that exists is sent under a new
   * generation, by which nodes tell it from the rest.
   */
  noteBucket: (created: string) => Promise<void>
  moveCursor: (settled: number, revision: number) => Promise<void>
  /** The next changes, in order, and up to where everything is known. A generation comes whole. */
  outboxAfter: (generation: number, limit: number) => Promise<{ rows: OutboxRow[]; settled: number }>
  withheld: () => Promise<Reasons>
  /** `sent` are withheld no longer; `kept` are, with their reasons. */
  noteWithheld: (sent: readonly RecordKey[], kept: readonly OutboxRow[], reasons: Reasons) => Promise<void>
  /** The same with the state of another wave than the first, and the changes that are for it. */
  ofWave: (wave: number) => LockedDatabase
  /** How many waves the cell has. */
  waves: () => Promise<number>
  /** Before the first wave is published: what nodes of it had while the cell had no other wave is released. */
  beginRollouts: () => Promise<void>
  /** What these accounts changed. */
  unassigned: (accounts: readonly Uuid[]) => Promise<Unassigned>
  /** All of it, and that everything up to `settled` belongs to a rollout; or false if one was released or halted meanwhile. */
  hold: (holding: Holding) => Promise<boolean>
}

export type HeldRecords = {
  readonly held: ReadonlyMap<RecordKey, Previous>
  /** A change of these is committed, and belongs to no rollout yet. */
  readonly unsettled: ReadonlySet<RecordKey>
  /** For some record, it is unknown what the wave is to have. */
  readonly hasLost: boolean
}

export type Holding = {
  readonly version: number
  readonly settled: number
  readonly joining: readonly Joining[]
  /** What the keys of `joining` were before. */
  readonly previous: ReadonlyMap<RecordKey, Previous>
}

/** All that publishing in one cell does with PostgreSQL. Passed in, so that a simulation can be the database. */
export type PublisherDatabase = {
  signer: () => Promise<Signer>
  trustedKeys: () => Promise<TrustedKeys>
  /**
   * Waits some seconds for this process's turn, and does nothing when it does not come. Rejects when the session ends or
   * `giveUp` aborts. `end` asks the work to end.
   */
  holdingLock: (
    until: { leave: AbortSignal; giveUp: AbortSignal },
    work: (locked: LockedDatabase, end: AbortSignal) => Promise<void>,
  ) => Promise<void>
  noteExpiredRules: (since: number, now: number) => Promise<void>
  /** Each thing as it is now, and null if it is not in the cell. What cannot be read or sent is left out. */
  compile: (changed: readonly Changed[], now: number, context: CompileContext) => Promise<Compiled[]>
  settled: () => Promise<number>
  /** What the bucket has under an earlier generation must be sent again. */
  resendBelow: () => Promise<number>
  /** Everything that has a record in the cell, page by page. */
  living: (kind: RecordKind) => AsyncIterable<Changed[]>
  /**
   * Everything of the account that has a record in one of its cells, and what has changed since a generation: it may be
   * deleted by now, under a generation that is not sent yet.
   */
  recordsOf: (accountId: Uuid, after: number) => Promise<RecordKey[]>
  /** Accounts that were placed in the cell or removed from it since a generation, and under which one last. */
  moves: (after: number) => Promise<ReadonlyMap<Uuid, number>>
  changedSince: (inBucket: ReadonlyMap<RecordKey, { generation: number }>) => Promise<Set<RecordKey>>
  /** Writes these into the outbox for the cell, under one generation, and resolves to it. */
  enqueue: (changed: readonly Changed[]) => Promise<number>
  /** The same with the state of one of several waves, and changes for it alone. */
  ofWave: (wave: number) => PublisherDatabase
  /** Which of these records a wave is to have as they were before a rollout. */
  held: (wave: number, keys: readonly RecordKey[]) => Promise<HeldRecords>
  /** All of them. */
  heldKeys: (wave: number) => Promise<HeldKey[]>
}
