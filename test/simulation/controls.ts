import { ContentFault } from '../../src/agent/disk/policy_files.ts'
import type { Progress } from '../../src/distribution/channels.ts'
import { type Broken, firstSeedWithMoves, live } from './history_of_seed.ts'

/** A progress without what later versions added. */
const without = (progress: Progress | undefined, ...fields: (keyof Progress)[]): Progress | undefined => {
  if (!progress) return undefined
  const left = { ...progress }
  for (const field of fields) delete left[field]
  return left
}

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
  'what an account had stays in a cell that it has left': {
    hasMoves: true,
    publisher: { database: (database) => ({ ...database, recordsOf: async () => [] }) },
  },
  'a deletion is lost that was made while its account left the cell': {
    hasMoves: true,
    from: firstSeedWithMoves + 640,
    publisher: {
      database: (database) => ({
        ...database,
        recordsOf: (accountId) => database.recordsOf(accountId, Number.POSITIVE_INFINITY),
      }),
    },
  },
  'what an account changed just before it left is not told to the cell': {
    hasMoves: true,
    from: firstSeedWithMoves + 100,
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
    from: 9,
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
    from: 38,
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
  'lost writes of NATS are not noticed': {
    faults: ['NATS loses writes', 'messages are lost', 'a publisher is killed'],
    from: 95,
    publisher: {
      buckets: (server) => ({
        ...server,
        async streams() {
          const streams = await server.streams()
          return { ...streams, getMessage: async () => ({ seq: Number.POSITIVE_INFINITY }) }
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
  const first = broken.from ?? (broken.hasMoves ? firstSeedWithMoves : 1)
  for (let seed = first; seed < first + most; seed++) {
    const { violation } = await live(seed, { broken })
    if (violation) return { seed, violation }
  }
  return undefined
}
