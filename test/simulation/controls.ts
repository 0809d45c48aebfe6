import { ContentFault } from '../../src/agent/disk/policy_files.ts'
import type { Progress } from '../../src/distribution/channels.ts'
import type { LockedDatabase, PublisherDatabase } from '../../src/publisher/database.ts'
import { noAccount } from '../../src/publisher/waves/hold.ts'
import { type Broken, firstSeedWithMoves, firstSeedWithWaves, live } from './history_of_seed.ts'

/** A progress without what later versions added. */
const without = (progress: Progress | undefined, ...fields: (keyof Progress)[]): Progress | undefined => {
  if (!progress) return undefined
  const left = { ...progress }
  for (const field of fields) delete left[field]
  return left
}

/** A database of which the session with the lock is broken. */
const withLocked =
  (broken: (locked: LockedDatabase) => LockedDatabase) =>
  (database: PublisherDatabase): PublisherDatabase => ({
    ...database,
    holdingLock: (until, work) => database.holdingLock(until, (locked, end) => work(broken(locked), end)),
    ofWave: (wave) => withLocked(broken)(database.ofWave(wave)),
  })
const inEachWave = (locked: LockedDatabase, broken: Partial<LockedDatabase>): LockedDatabase => ({
  ...locked,
  ...broken,
  ofWave: (wave) => inEachWave(locked.ofWave(wave), wave === 0 ? broken : {}),
})

/**
 * Faults that the product once had, each as a broken variant of one part: if the simulation does not find them, it is blind.
 * Everything else is the real code.
 */
export const controls: Record<string, Broken> = {
  'a deletion is lost with the bucket of NATS': {
    faults: ['NATS loses all', 'an agent is killed'],
    node: {
      handlers: (agent) => ({
        ...agent,
        announced: ({ records, progress }) =>
          agent.announced({ records, progress: without(progress, 'live', 'floor') as Progress }),
        entry(entry) {
          const progress = without(entry.progress, 'live', 'floor')
          agent.entry({ ...entry, ...(progress && { progress }) })
        },
      }),
    },
  },
  'a change reaches all waves at once because a comparison found the same': {
    hasWaves: true,
    from: firstSeedWithWaves + 101_259,
    publisher: {
      database: withLocked((locked) =>
        inEachWave(locked, {
          async outboxAfter(generation, limit) {
            const { rows, settled } = await locked.outboxAfter(generation, limit)
            const compared = new Set(rows.filter((row) => row.account_id === noAccount).map(({ key }) => key))
            return {
              rows: rows.map((row) => (compared.has(row.key) ? { ...row, account_id: noAccount } : row)),
              settled,
            }
          },
        }),
      ),
    },
  },
  'what an account had stays in a cell that it has left': {
    hasMoves: true,
    publisher: { database: (database) => ({ ...database, recordsOf: async () => [] }) },
  },
  'a deletion is lost that was made while its account left the cell': {
    hasMoves: true,
    from: firstSeedWithMoves + 1_447,
    publisher: {
      database: (database) => ({
        ...database,
        recordsOf: (accountId) => database.recordsOf(accountId, Number.POSITIVE_INFINITY),
      }),
    },
  },
  'what an account changed just before it left is not told to the cell': {
    hasMoves: true,
    from: firstSeedWithMoves + 1_450,
    publisher: {
      database: (database) => ({
        ...database,
        async moves(after) {
          const [settled, moves] = [await database.settled(), await database.moves(after)]
          return new Map([...moves].filter(([, generation]) => generation <= settled))
        },
      }),
    },
  },
  'half of what was read is enforced': {
    node: {
      handlers(agent) {
        let made = ''
        return {
          ...agent,
          opened(bucket, resumed) {
            made = bucket
            agent.opened(bucket, resumed)
          },
          entry(entry) {
            const settled = entry.record?.generation ?? entry.progress?.settled
            if (settled === undefined) agent.entry(entry)
            else agent.entry({ ...entry, pending: 0, progress: { after: 0, settled, complete: made } })
          },
        }
      },
    },
  },
  'a change that is in the log is not enforced when the log cannot be rewritten': {
    faults: ['a disk is full', 'a session ends'],
    from: 12,
    node: {
      recordLog: (log) => ({
        ...log,
        async append(...given) {
          await log.append(...given)
          if (log.isLong()) await log.compact()
        },
      }),
    },
  },
  'a change that HAProxy has lost counts as applied': {
    faults: ['HAProxy loses commands'],
    node: {
      runtime(runtime) {
        const told = new Map<string, string | undefined>()
        return {
          ...runtime,
          async change(commands, places = []) {
            const all = [...commands]
            for (const command of all)
              told.set(`${command.map} ${command.key}`, command.kind === 'del' ? undefined : command.value)
            await runtime.change(all)
            return this.lookUp(places)
          },
          lookUp: async (places) => places.map(({ map, key }) => told.get(`${map} ${key}`)),
        }
      },
    },
  },
  'a full disk refuses a policy for good': {
    faults: ['a disk is full', 'a session ends'],
    node: {
      policyFiles: (files) => ({
        ...files,
        prepare: (...given) =>
          files.prepare(...given).catch((error: Error) => {
            throw new ContentFault(error.message)
          }),
      }),
    },
  },
  'an answer of NATS stands in the place of a record': {
    faults: ['the bucket is tampered with', 'a machine is replaced'],
    node: {
      handlers: (agent) => ({
        ...agent,
        announced: ({ records, progress }) =>
          agent.announced({ records, progress: without(progress, 'live') as Progress }),
        entry({ unverified: _, ...entry }) {
          const progress = without(entry.progress, 'live')
          agent.entry({ ...entry, ...(progress && { progress }) })
        },
      }),
    },
  },
  'a publisher that was overtaken puts old records over newer ones': {
    faults: ['a publisher stands still', 'NATS is slow'],
    from: 40,
    publisher: {
      buckets: (server) => ({
        ...server,
        async open(name) {
          const bucket = await server.open(name)
          return { ...bucket, put: (key, value) => bucket.put(key, value) }
        },
      }),
    },
  },
  'a later wave gets a change that is not assigned to a rollout yet': {
    hasWaves: true,
    publisher: {
      database: function broken(database): PublisherDatabase {
        return {
          ...database,
          held: async (...given) => ({ ...(await database.held(...given)), unsettled: new Set() }),
          ofWave: (wave) => broken(database.ofWave(wave)),
        }
      },
    },
  },
  'changes that a record may contain, and that are not settled, belong to the next rollout': {
    hasWaves: true,
    from: firstSeedWithWaves + 70,
    publisher: {
      database: withLocked((locked) =>
        inEachWave(locked, {
          async unassigned(accounts) {
            const { settled } = await locked.outboxAfter(0, 1)
            const { changes, ...more } = await locked.unassigned(accounts)
            return { ...more, changes: changes.filter(({ generation }) => generation <= settled) }
          },
        }),
      ),
    },
  },
  'what changes while a rollout is halted does not wait in it': {
    hasWaves: true,
    publisher: {
      database: withLocked((locked) =>
        inEachWave(locked, {
          async unassigned(accounts) {
            const { open, ...more } = await locked.unassigned(accounts)
            return { ...more, open: open.filter(({ reached }) => reached >= 0) }
          },
        }),
      ),
    },
  },
  'what was sent and not written counts as never sent': {
    hasWaves: true,
    publisher: {
      database: withLocked((locked) =>
        inEachWave(locked, {
          async unassigned(accounts) {
            const { open, ...more } = await locked.unassigned(accounts)
            return { ...more, open: open.map((rollout) => ({ ...rollout, openUntil: 0 })) }
          },
        }),
      ),
    },
  },
  'lost writes of NATS are not noticed': {
    faults: ['NATS loses writes', 'messages are lost', 'a publisher is killed'],
    from: 142,
    publisher: {
      buckets: (server) => ({
        ...server,
        async streams() {
          const streams = await server.streams()
          return { ...streams, getMessage: async () => ({ seq: Number.POSITIVE_INFINITY, data: new Uint8Array() }) }
        },
      }),
    },
  },
}

/** A seed in whose history the fault shows, or undefined. */
export async function firstFound(
  broken: Broken,
  most: number,
): Promise<{ seed: number; violation: string } | undefined> {
  const first = broken.from ?? (broken.hasWaves ? firstSeedWithWaves : broken.hasMoves ? firstSeedWithMoves : 1)
  for (let seed = first; seed < first + most; seed++) {
    const { violation } = await live(seed, { broken })
    if (violation) return { seed, violation }
  }
  return undefined
}
