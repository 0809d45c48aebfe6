import { JetStreamApiCodes, JetStreamApiError, type StoredMsg } from '@nats-io/jetstream'
import type { NatsConnection } from '@nats-io/transport-node'
import type { BucketApi } from '../../src/distribution/bucket_api.ts'
import { defaultChannels } from '../../src/distribution/channels.ts'
import type { Bucket, BucketServer } from '../../src/publisher/bucket/bucket_server.ts'
import type { Process, Scheduler } from './scheduler.ts'

type Stored = { seq: number; data: Buffer }
type Stream = { created: string; last: number; byKey: Map<string, Stored> }
type Subscription = { process: Process; subject: string; deliveredAt: number; deliver: (data: Buffer) => void }

const timeoutMs = 5_000
const maxPayload = 1 << 20
const streamOf = (bucket: string): string => `KV_${bucket}`
const copyOf = (stream: Stream): Stream => ({ ...stream, byKey: new Map(stream.byKey) })

/**
 * NATS with its buckets. Requests and answers travel separately, so that a write may have happened although its writer
 * heard nothing. Plain messages keep the order of their sender, and may be lost.
 */
export function createNats(scheduler: Scheduler) {
  const { chance } = scheduler
  let streams = new Map<string, Stream>()
  /** What is on its disk. */
  let synced = new Map<string, Stream>()
  /** What a replica has that is behind, while there is one. */
  let behind: Map<string, Stream> | undefined
  let made = 0
  let downUntil = 0
  let slowMs = 2
  /** One in so many plain messages is lost. */
  let losesOneIn = 0
  const cutOff = new Map<Process, number>()
  const subscriptions = new Set<Subscription>()
  /** Everything that ever stood in the bucket, for those who put it back. */
  const archive: { key: string; data: Buffer }[] = []
  const oldBatches: Buffer[] = []
  let onOlder = (_fault: string): void => {}
  let hasLostData = false

  const backAt = (process: Process): number => Math.max(downUntil, cutOff.get(process) ?? 0)
  const isConnected = (process: Process): boolean => backAt(process) <= scheduler.now()
  const travelMs = (): number => chance.next() * slowMs

  /** The effect happens on the server, even if the process that asked for it is gone. */
  function call<Result>(process: Process, effect: () => Result): Promise<Result> {
    return new Promise((resolve, reject) => {
      let isOver = false
      const end = (work: () => void) => () => {
        if (isOver) return
        isOver = true
        work()
      }
      const giveUp = () =>
        scheduler.at(
          timeoutMs,
          process,
          end(() => reject(new Error('TIMEOUT'))),
        )
      function arrive(): void {
        let outcome: () => void
        try {
          const result = effect()
          outcome = () => resolve(result)
        } catch (error) {
          outcome = () => reject(error)
        }
        if (isConnected(process))
          scheduler.at(travelMs(), process, () => (isConnected(process) ? end(outcome)() : giveUp()))
        else giveUp()
      }
      if (isConnected(process)) {
        scheduler.at(travelMs(), undefined, () => (downUntil > scheduler.now() ? giveUp() : arrive()), true)
        return
      }
      giveUp()
      // The client keeps what it could not send, and sends it when it is connected again.
      if (chance.is(0.5)) scheduler.at(backAt(process) - scheduler.now() + travelMs(), undefined, arrive, true)
    })
  }

  function find(name: string): Stream {
    const stream = streams.get(name)
    if (stream) return stream
    throw new JetStreamApiError({
      code: 404,
      err_code: JetStreamApiCodes.StreamNotFound,
      description: 'stream not found',
    })
  }
  /** By any replica. */
  const findAnywhere = (name: string): Stream => (chance.is(0.5) && behind?.get(name)) || find(name)

  function put(name: string, key: string, data: Buffer, previous?: number): number {
    const stream = find(name)
    if (previous !== undefined && (stream.byKey.get(key)?.seq ?? 0) !== previous)
      throw new JetStreamApiError({
        code: 400,
        err_code: JetStreamApiCodes.StreamWrongLastSequence,
        description: `wrong last sequence: ${stream.byKey.get(key)?.seq ?? 0}`,
      })
    if (data.length > maxPayload) throw new Error('maximum payload exceeded')
    stream.last++
    stream.byKey.set(key, { seq: stream.last, data })
    if (name === streamOf(defaultChannels.records)) archive.push({ key, data })
    if (scheduler.isTraced) scheduler.tell('NATS', `${name} ${key} has revision ${stream.last}${aboutOf(data)}`)
    return stream.last
  }

  /** A node that reads the bucket from now on would get the older one. */
  function noteReplaced(process: Process, key: string, before: Buffer | undefined, data: Buffer): void {
    // After a loss, NATS gives revisions a second time, and the condition of a late write may meet the wrong one.
    if (!before || hasLostData) return
    const [older, newer] = [generationOf(data), generationOf(before)]
    // Only a defect signs the last one (faults.ts), and it must be replaced.
    if (newer === Number.MAX_SAFE_INTEGER) return
    if (older !== undefined && newer !== undefined && older < newer)
      onOlder(`${process.name} puts ${key} of generation ${older} in the place of generation ${newer} in the bucket`)
  }

  function bucketOf(process: Process, bucket: string): Bucket {
    const name = streamOf(bucket)
    const sorted = () => [...find(name).byKey].sort(([, a], [, b]) => a.seq - b.seq)
    return {
      get: (key) =>
        call(process, () => {
          const found = findAnywhere(name).byKey.get(key)
          return found ? { revision: found.seq, string: () => found.data.toString() } : null
        }),
      put: (key, value, options) =>
        call(process, () => {
          const [data, before] = [Buffer.from(value as string), find(name).byKey.get(key)?.data]
          const revision = put(name, key, data, options?.previousSeq)
          noteReplaced(process, key, before, data)
          return revision
        }),
      keys: () => call(process, () => iterate(sorted().map(([key]) => key))),
      async *entries() {
        yield* await call(process, () => sorted().map(([key, { data }]) => ({ key, string: () => data.toString() })))
      },
    }
  }

  const serverOf = (process: Process): BucketServer => ({
    open: (bucket) =>
      call(process, () => {
        const name = streamOf(bucket)
        if (!streams.has(name))
          streams.set(name, { created: `${scheduler.epoch()}-${++made}`, last: 0, byKey: new Map() })
      }).then(() => bucketOf(process, bucket)),
    streams: async () => ({
      info: (name) => call(process, () => ({ created: find(name).created, state: { last_seq: find(name).last } })),
      purge: (name, { filter }) =>
        call(process, () => find(name).byKey.delete(filter.slice(`$KV.${name.slice(3)}.`.length))),
      getMessage: (name, { last_by_subj }) =>
        call(process, () => find(name).byKey.get(last_by_subj.slice(`$KV.${name.slice(3)}.`.length)) ?? null),
      delete: (name) =>
        call(process, () => {
          scheduler.tell('NATS', `the bucket ${name} is deleted`)
          return streams.delete(name)
        }),
    }),
  })

  /** Reading, as nodes do it. */
  const apiOf = (process: Process): BucketApi => {
    const messageOf = (name: string, key: string, { seq, data }: Stored) =>
      ({ subject: `$KV.${name.slice(3)}.${key}`, seq, data, string: () => data.toString() }) as unknown as StoredMsg
    const from = (stream: Stream, seq: number) =>
      [...stream.byKey].filter(([, stored]) => stored.seq >= seq).sort(([, a], [, b]) => a.seq - b.seq)
    return {
      isShared: false,
      streams: {
        info: (name: string) =>
          call(process, () => ({ created: find(name).created, state: { last_seq: find(name).last } })),
        getMessage: (name: string, query: { seq?: number; last_by_subj?: string }) =>
          call(process, () => {
            const stream = find(name)
            if (query.last_by_subj) {
              const key = query.last_by_subj.slice(`$KV.${name.slice(3)}.`.length)
              const stored = stream.byKey.get(key)
              return stored ? messageOf(name, key, stored) : null
            }
            const [first] = from(stream, query.seq ?? 0)
            return first ? messageOf(name, ...first) : null
          }),
      } as unknown as BucketApi['streams'],
      direct: {
        async getBatch(
          name: string,
          {
            seq,
            batch,
            callback,
          }: { seq: number; batch: number; callback: (done: object | null, message?: object) => void },
        ) {
          const found = await call(process, () => from(findAnywhere(name), seq).slice(0, batch))
          let last = 0
          for (const [index, [key, stored]] of found.entries()) {
            callback(null, { ...messageOf(name, key, stored), lastSequence: last, pending: found.length - 1 - index })
            last = stored.seq
          }
          callback(found.length > 0 ? {} : { err: Object.assign(new Error('no messages'), { code: 404 }) })
          return { stop() {} }
        },
      } as unknown as BucketApi['direct'],
    }
  }

  function publish(subject: string, data: Buffer): void {
    if (subject === defaultChannels.batches) oldBatches.push(data)
    for (const subscription of subscriptions) {
      if (subscription.subject !== subject || !isConnected(subscription.process)) continue
      if (losesOneIn > 0 && chance.below(losesOneIn) === 0) continue
      const at = Math.max(subscription.deliveredAt, scheduler.now() + travelMs())
      subscription.deliveredAt = at
      scheduler.at(at - scheduler.now(), subscription.process, () => {
        if (subscriptions.has(subscription)) subscription.deliver(data)
      })
    }
  }

  const connectionOf = (process: Process): Pick<NatsConnection, 'publish' | 'subscribe' | 'info'> =>
    ({
      info: { max_payload: maxPayload },
      publish(subject: string, payload: Buffer | string = '') {
        const data = Buffer.from(payload as string)
        if (data.length > maxPayload) throw new Error('maximum payload exceeded')
        if (isConnected(process)) scheduler.at(travelMs(), undefined, () => publish(subject, data), true)
      },
      subscribe(subject: string, { callback }: { callback: (error: Error | null, message: object) => void }) {
        const deliver = (data: Buffer) => callback(null, { data, string: () => data.toString() })
        const subscription = { process, subject, deliveredAt: 0, deliver }
        subscriptions.add(subscription)
        process.atEnd.push(() => subscriptions.delete(subscription))
        return { unsubscribe: () => subscriptions.delete(subscription) }
      },
    }) as unknown as Pick<NatsConnection, 'publish' | 'subscribe' | 'info'>

  return {
    serverOf,
    openApi: (process: Process): Promise<BucketApi> => call(process, () => apiOf(process)),
    connectionOf,
    isConnected,
    publish,
    oldBatches,
    archive,
    records: () => streams.get(streamOf(defaultChannels.records)),
    onOlder(listener: typeof onOlder): void {
      onOlder = listener
    },
    /** As someone with access to its disk or an account of its own might. */
    overwrite: (key: string, data: Buffer) =>
      void (streams.has(streamOf(defaultChannels.records)) && put(streamOf(defaultChannels.records), key, data)),
    sync(): void {
      synced = new Map([...streams].map(([name, stream]) => [name, copyOf(stream)]))
    },
    /** Comes back as of its last sync, or with nothing. */
    loseWrites: () => restart('NATS loses power, and what it had not synced', synced),
    loseAll: () => restart('NATS loses all its data', new Map()),
    stop(ms: number): void {
      scheduler.tell('NATS', `is away for ${Math.round(ms)} ms`)
      downUntil = scheduler.now() + ms
    },
    cutOff(process: Process, ms: number): void {
      scheduler.tell(process.name, `is cut off from NATS for ${Math.round(ms)} ms`)
      cutOff.set(process, scheduler.now() + ms)
    },
    setSlow(ms: number): void {
      slowMs = ms
    },
    setLossy(oneIn: number): void {
      losesOneIn = oneIn
    },
    /** From now on, a replica that answers reads does not learn anything. */
    setBehind(isBehind: boolean): void {
      behind = isBehind ? new Map([...streams].map(([name, stream]) => [name, copyOf(stream)])) : undefined
      if (isBehind) scheduler.tell('NATS', 'a replica falls behind')
    },
    recover(): void {
      downUntil = 0
      cutOff.clear()
      slowMs = 2
      losesOneIn = 0
      behind = undefined
    },
  }

  function restart(what: string, left: Map<string, Stream>): void {
    scheduler.tell('NATS', what)
    hasLostData = true
    streams = new Map([...left].map(([name, stream]) => [name, copyOf(stream)]))
    synced = new Map([...left].map(([name, stream]) => [name, copyOf(stream)]))
    behind = undefined
    downUntil = scheduler.now() + chance.next() * 3_000
  }
}
export type Nats = ReturnType<typeof createNats>

async function* iterate<Item>(items: readonly Item[]): AsyncGenerator<Item> {
  yield* items
}

/** The generation that a record or a progress claims. */
function generationOf(data: Buffer): number | undefined {
  const [, generation] = /\\"(?:generation|settled)\\":(\d+)/.exec(data.toString('latin1')) ?? []
  return generation === undefined ? undefined : Number(generation)
}
function aboutOf(data: Buffer): string {
  const generation = generationOf(data)
  return generation ? `, of generation ${generation}` : ''
}
