import type { RecordKey, RecordKind, RecordValue } from '../../src/distribution/records.ts'
import { kindOf } from '../../src/distribution/records.ts'
import type { Signer, TrustedKeys } from '../../src/distribution/signature.ts'
import type { Uuid } from '../../src/kernel/ids.ts'
import type { OutboxRow } from '../../src/operations/outbox.ts'
import { defaultCell, isPlacementKey, placementKey } from '../../src/operations/placement.ts'
import type { LockedDatabase, PublisherDatabase, Reasons } from '../../src/publisher/database.ts'
import type { Compiled } from '../../src/publisher/records/compile.ts'
import { goesThroughWaves } from '../../src/publisher/waves/rollout.ts'
import { copyOf, createRollouts } from './rollouts.ts'
import type { Process, Scheduler } from './scheduler.ts'
import type { Position, Row, State } from './state.ts'

/** What stands in the tables of one thing. */
export type Thing = { accountId: Uuid; value: RecordValue; blobs: Buffer[] }
/** Null: it is deleted. */
export type Writes = ReadonlyMap<RecordKey, Thing | null>

const skipped = 1_000_000_000
/** How long a standby waits before it asks for the lock again. */
const askAgainMs = 1_000

/** The database: transactions that end in another order than they began, the outbox, one lock, and a backup. */
export function createPostgres(
  scheduler: Scheduler,
  keys: { signer: Signer; trusted: TrustedKeys },
  { hasMoves, waves }: { hasMoves: boolean; waves: number },
) {
  const { chance } = scheduler
  const newPosition = (): Position => ({ cursor: 0, created: null, revision: 0, resendBelow: 0 })
  let state: State = {
    things: new Map(),
    outbox: [],
    positions: Array.from({ length: waves }, newPosition),
    rollouts: [],
    classified: 0,
    version: 0,
    past: new Map(),
    allowed: Array.from({ length: waves }, () => new Map()),
    withheld: new Map(),
    elsewhere: new Set(),
  }
  let lastGeneration = 0
  let backup: State | undefined
  const running = new Set<number>()
  const busyAccounts = new Set<Uuid>()
  /** Moves take turns: they hold a lock from before they get their generation until they are committed. */
  let movingIn: State | undefined
  let holder: { process: Process; end: (why: string) => void } | undefined
  let downUntil = 0
  const commitListeners: ((wave: number, generation: number, writes: Writes) => void)[] = []
  const onCommit = (wave: number, generation: number, writes: Writes): void => {
    for (const listener of commitListeners) listener(wave, generation, writes)
  }
  const restoreListeners: (() => void)[] = []
  const rollouts = createRollouts(() => state, waves, onCommit)

  const here = (): Map<RecordKey, Thing> =>
    new Map([...state.things].filter(([, { accountId }]) => !state.elsewhere.has(accountId)))
  const settled = (): number => (running.size > 0 ? Math.min(...running) - 1 : lastGeneration)
  const query = <Result>(process: Process, work: () => Result): Promise<Result> =>
    scheduler.takes(process, chance.next() * 3, () => {
      if (scheduler.now() < downUntil) throw new Error('the database does not answer')
      return work()
    })

  function write(
    generation: number,
    accountId: Uuid,
    keys: Iterable<RecordKey>,
    about: Pick<Row, 'isChange' | 'waves'> = { isChange: false },
  ): void {
    const created_at = new Date(scheduler.epoch()).toISOString()
    for (const key of keys) state.outbox.push({ generation, account_id: accountId, key, created_at, ...about })
  }
  const isFor = ({ waves: only }: Row, wave: number): boolean => !only || (only[0] <= wave && wave <= only[1])

  const lockedOf = (process: Process, isHeld: () => boolean, wave = 0): LockedDatabase => {
    const position = (): Position => state.positions[wave] as Position
    const ask = <Result>(work: () => Result): Promise<Result> =>
      query(process, () => {
        if (!isHeld()) throw new Error('the session has ended')
        return work()
      })
    return {
      signer: () => ask(() => keys.signer),
      state: () => ask(() => ({ ...position() })),
      noteBucket: (created) =>
        ask(() => {
          const mine = position()
          if (mine.created === created) return
          if (mine.created !== null) mine.resendBelow = Math.max(mine.resendBelow, settled())
          mine.created = created
          mine.revision = 0
        }),
      moveCursor: (cursor, revision) => ask(() => void Object.assign(position(), { cursor, revision })),
      outboxAfter: async (after) => {
        const bound = await ask(settled)
        return ask(() => ({
          rows: state.outbox
            .filter((row) => row.generation > after && row.generation <= bound && isFor(row, wave))
            .sort(byGeneration),
          settled: bound,
        }))
      },
      withheld: () => ask((): Reasons => new Map(state.withheld)),
      noteWithheld: (sent, kept, reasons) =>
        ask(() => {
          for (const key of sent) state.withheld.delete(key)
          for (const { key } of kept) state.withheld.set(key, reasons.get(key) ?? '')
        }),
      ofWave: (other) => lockedOf(process, isHeld, other),
      waves: async () => waves,
      beginRollouts: () =>
        ask(() => {
          state.classified = Math.max(state.classified, position().cursor)
        }),
      unassigned: (accounts) =>
        ask(() => ({
          version: state.version,
          changes: state.outbox.filter(
            ({ isChange, generation, account_id, key }) =>
              isChange && generation > state.classified && accounts.includes(account_id) && goesThroughWaves(key),
          ),
          open: state.rollouts
            .filter(({ accountId }) => accounts.includes(accountId))
            .map(({ previous, ...rollout }) => ({ ...rollout, keys: new Set(previous.keys()) })),
        })),
      hold: ({ version, settled: bound, joining, previous }) =>
        ask(() => {
          if (version !== state.version) return false
          rollouts.join(joining, previous)
          state.classified = Math.max(state.classified, bound)
          return true
        }),
    }
  }

  const databaseOf = (process: Process, wave?: number): PublisherDatabase => ({
    signer: () => query(process, () => keys.signer),
    trustedKeys: () => query(process, () => keys.trusted),
    async holdingLock({ giveUp }, work) {
      const lost = new AbortController()
      const session = { process, end: (why: string) => lost.abort(new Error(why)) }
      const isLocked = await query(process, () => {
        if (holder) return false
        holder = session
        process.atEnd.push(() => free())
        return true
      })
      if (!isLocked) {
        await scheduler.takes(process, askAgainMs, () => {})
        return
      }
      const free = () => {
        if (holder === session) holder = undefined
      }
      const ended = new Promise<never>((_, reject) => {
        for (const signal of [lost.signal, giveUp])
          signal.addEventListener('abort', () => reject(signal.reason), { once: true })
        if (giveUp.aborted) reject(giveUp.reason)
      })
      try {
        await Promise.race([
          work(
            lockedOf(process, () => holder === session),
            lost.signal,
          ),
          ended,
        ])
      } finally {
        free()
      }
    },
    noteExpiredRules: () => query(process, () => {}),
    async compile(changed) {
      const compiled: Compiled[] = []
      // Histories without moves stay as they were before there were any.
      const elsewhere = hasMoves ? await query(process, () => new Set(state.elsewhere)) : state.elsewhere
      // Each kind is a statement of its own, and sees what was committed until then.
      for (const [, ofKind] of Map.groupBy(changed, ({ key }) => kindOf(key)))
        await query(process, () => {
          for (const { key, accountId } of ofKind) {
            const thing = state.things.get(key)
            // What a comparison found to be gone has no account.
            if (elsewhere.has(accountId)) compiled.push({ key, value: null, blobs: [], isElsewhere: true })
            else if (elsewhere.has(thing?.accountId ?? accountId)) compiled.push({ key, value: null, blobs: [] })
            else compiled.push({ key, value: thing?.value ?? null, blobs: thing?.blobs ?? [] })
          }
        })
      return compiled
    },
    settled: () => query(process, settled),
    resendBelow: () => query(process, () => state.positions[wave ?? 0]?.resendBelow ?? 0),
    async *living(kind: RecordKind) {
      const page = await query(process, () => [...here()].filter(([key]) => kindOf(key) === kind))
      if (page.length > 0) yield page.map(([key, { accountId }]) => ({ key, accountId }))
    },
    recordsOf: (accountId, after) =>
      query(process, () => {
        const left = [...state.things].filter(([, thing]) => thing.accountId === accountId).map(([key]) => key)
        const changed = state.outbox.filter(
          ({ account_id, generation, key }) => account_id === accountId && generation > after && !isPlacementKey(key),
        )
        return [...left, ...changed.map(({ key }) => key)]
      }),
    async moves(after) {
      if (!hasMoves) return new Map()
      const moves = await query(process, () =>
        state.outbox.filter(({ generation, key }) => generation > after && isPlacementKey(key)).sort(byGeneration),
      )
      return new Map(moves.map(({ account_id, generation }) => [account_id, generation]))
    },
    changedSince: (inBucket) =>
      query(process, () => {
        const changed = state.outbox.filter(
          ({ key, generation }) => generation > (inBucket.get(key)?.generation ?? Infinity),
        )
        return new Set(changed.map(({ key }) => key))
      }),
    async enqueue(changed) {
      const generation = await query(process, () => {
        running.add(++lastGeneration)
        const mine = lastGeneration
        process.atEnd.push(() => running.delete(mine))
        return mine
      })
      return query(process, () => {
        for (const { accountId, key } of changed)
          write(generation, accountId, [key], { isChange: false, ...(wave !== undefined && { waves: [wave, wave] }) })
        running.delete(generation)
        return generation
      }).finally(() => running.delete(generation))
    },
    ofWave: (other) => databaseOf(process, other),
    held: (other, keys) =>
      query(process, () => {
        const held = rollouts.heldIn(other, keys)
        const changed = state.outbox.filter(
          ({ isChange, generation, key }) => isChange && generation > state.classified && goesThroughWaves(key),
        )
        const late =
          other > 0 ? changed.map(({ key }) => key).filter((key) => keys.includes(key) && !held.has(key)) : []
        return { held, unsettled: new Set(late), hasLost: rollouts.hasLost(other) }
      }),
    heldKeys: (other) => query(process, () => rollouts.heldKeys(other)),
  })

  /** The operator or the judge decides, and holds nothing that accounts wait for. */
  function decide(what: string, work: (generation: number) => boolean, isNow: boolean): void {
    if (scheduler.now() < downUntil) return
    running.add(++lastGeneration)
    const generation = lastGeneration
    const started = state
    scheduler.at(
      isNow ? 0 : chance.is(0.1) ? chance.next() * 2_000 : chance.next() * 10,
      undefined,
      () => {
        running.delete(generation)
        if (started !== state || !work(generation)) return
        state.version++
        scheduler.tell('operator', `${what} (generation ${generation})`)
      },
      true,
    )
  }

  return {
    databaseOf,
    /** A change of an account, as the API makes it. Its account waits until it has ended. */
    change(accountId: Uuid, make: (things: ReadonlyMap<RecordKey, Thing>) => Writes, told: string): void {
      if (busyAccounts.has(accountId) || scheduler.now() < downUntil) return
      busyAccounts.add(accountId)
      running.add(++lastGeneration)
      const generation = lastGeneration
      const isRolledBack = chance.is(0.05)
      const started = state
      scheduler.at(
        chance.is(0.1) ? chance.next() * 2_000 : chance.next() * 10,
        undefined,
        () => {
          busyAccounts.delete(accountId)
          running.delete(generation)
          if (isRolledBack || started !== state) return
          const writes = make(state.things)
          if (writes.size === 0) return
          for (const [key, thing] of writes) {
            if (thing) state.things.set(key, thing)
            else state.things.delete(key)
          }
          write(generation, accountId, writes.keys(), { isChange: true })
          const keys = [...writes].map(([key, thing]) => `${key}${thing ? '' : ' gone'}`)
          scheduler.tell('account', `${told} (generation ${generation}): ${keys.join(', ')}`)
          if (waves > 1) rollouts.changed(accountId, generation, writes)
          else onCommit(0, generation, state.elsewhere.has(accountId) ? withoutValues(writes) : writes)
        },
        true,
      )
    },
    /** The operator places the account in another cell, or back in this one. */
    move(accountId: Uuid, told: string): void {
      if (movingIn === state || scheduler.now() < downUntil) return
      running.add(++lastGeneration)
      const generation = lastGeneration
      const started = state
      movingIn = state
      scheduler.at(
        chance.is(0.2) ? chance.next() * 2_000 : chance.next() * 10,
        undefined,
        () => {
          running.delete(generation)
          if (started !== state) return
          movingIn = undefined
          const isBack = state.elsewhere.delete(accountId)
          if (!isBack) state.elsewhere.add(accountId)
          write(generation, accountId, [placementKey(defaultCell) as RecordKey])
          scheduler.tell('operator', `places ${told} ${isBack ? 'here' : 'elsewhere'} (generation ${generation})`)
          const all = new Map([...state.things].filter(([, thing]) => thing.accountId === accountId))
          onCommit(0, generation, isBack ? all : withoutValues(all))
        },
        true,
      )
    },
    /** What nodes of this cell should have. */
    things: (wave: number): ReadonlyMap<RecordKey, Thing> => (waves > 1 ? rollouts.thingsIn(wave) : here()),
    settled,
    onCommit: (listener: (typeof commitListeners)[number]) => void commitListeners.push(listener),
    onRestore: (listener: () => void) => void restoreListeners.push(listener),
    /** Rollouts that can be decided about: the first of each account. */
    rollouts: rollouts.first,
    hasLostPrevious: rollouts.hasLost,
    lost: rollouts.lost as ReadonlySet<RecordKey>,
    release: (id: number, reached: number, isNow = false): void =>
      decide(
        `releases rollout ${id} to wave ${reached}`,
        (generation) => {
          const released = rollouts.release(id, reached, generation)
          if (released) write(generation, released.accountId, released.keys, { isChange: false, waves: released.waves })
          return released !== undefined
        },
        isNow,
      ),
    halt: (id: number): void =>
      decide(
        `halts rollout ${id}`,
        (generation) => {
          const halted = rollouts.halt(id, generation)
          if (halted) write(generation, halted.accountId, halted.keys, { isChange: false, waves: halted.waves })
          return halted !== undefined
        },
        false,
      ),
    endSession(): void {
      if (!holder) return
      const { process, end } = holder
      scheduler.tell('PostgreSQL', `ends the session of ${process.name}`)
      holder = undefined
      // A process that stands still hears of it when it goes on.
      scheduler.at(1, process, () => end('the database session with the publisher lock has ended'))
    },
    stop(ms: number): void {
      scheduler.tell('PostgreSQL', `is away for ${Math.round(ms)} ms`)
      downUntil = scheduler.now() + ms
      this.endSession()
    },
    backUp(): void {
      backup = { ...copyOf(state) }
    },
    /** The backup, and `gatehouse after-restore`. No publisher may run meanwhile. */
    restore(): boolean {
      if (!backup) return false
      scheduler.tell('PostgreSQL', "is restored from a backup, and 'gatehouse after-restore' is run")
      state = copyOf(backup)
      running.clear()
      busyAccounts.clear()
      lastGeneration += skipped
      for (const position of state.positions) position.resendBelow = lastGeneration
      for (const listener of restoreListeners) listener()
      return true
    },
    recover(): void {
      downUntil = 0
    },
  }
}
export type Postgres = ReturnType<typeof createPostgres>

const withoutValues = (writes: Writes): Writes => new Map([...writes.keys()].map((key) => [key, null]))
const byGeneration = (a: OutboxRow, b: OutboxRow): number => a.generation - b.generation
