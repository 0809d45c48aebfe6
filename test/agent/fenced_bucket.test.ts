// A publisher that stands still in the middle of a write, while another takes over, must not put old records over newer ones.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { startNats } from '../../dev/nats.ts'
import { defaultChannels, progressKey } from '../../src/distribution/channels.ts'
import { createSigner, newSigningKey, seal, trustedKeys } from '../../src/distribution/signature.ts'
import { newId } from '../../src/kernel/ids.ts'
import { systemTiming } from '../../src/kernel/system_timing.ts'
import { type Bucket, bucketServer } from '../../src/publisher/bucket/bucket_server.ts'
import { createBucketWriter } from '../../src/publisher/bucket/bucket_writer.ts'
import { createFencedBucket } from '../../src/publisher/bucket/fenced_bucket.ts'
import { createNatsSink, openBuckets } from '../../src/publisher/bucket/nats_sink.ts'
import { connectAsControlPlane } from '../harness/nats.ts'

const nats = await startNats()
after(() => nats.stop())
const connection = await connectAsControlPlane({ after }, nats)
const { publicKey, privateKey } = newSigningKey()
const signer = createSigner(publicKey, privateKey)
const loadTrustedKeys = async () => trustedKeys([publicKey])

const writers: { stop: () => void }[] = []
after(() => {
  for (const writer of writers) writer.stop()
})

const buckets = await openBuckets(bucketServer(connection, 1), defaultChannels)
const kv = buckets.records

const record = (key: string, generation: number) => seal({ key, generation, value: null }, signer)
const batchOf = (keys: string[], generation: number) => ({
  records: keys.map((key) => record(key, generation)),
  progress: seal({ after: 0, settled: generation, complete: `at ${generation}` }, signer),
})
const payloadOf = async (key: string) => JSON.parse(JSON.parse((await kv.get(key))?.string() ?? '').payload)

/** Stands still before or after the call with this number, until told to go on. */
function pausing(target: Bucket, at: number, when: 'before' | 'after') {
  const { promise: resumed, resolve: resume } = Promise.withResolvers<void>()
  const { promise: paused, resolve: pause } = Promise.withResolvers<void>()
  let calls = 0
  const stopAt = async (moment: typeof when, call: number) => {
    if (call !== at || moment !== when) return
    pause()
    await resumed
  }
  const through =
    <Args extends unknown[], Result>(work: (...args: Args) => Promise<Result>) =>
    async (...args: Args): Promise<Result> => {
      const call = ++calls
      await stopAt('before', call)
      const result = await work.apply(target, args)
      await stopAt('after', call)
      return result
    }
  const wrapped = Object.assign(Object.create(target), { get: through(target.get), put: through(target.put) }) as Bucket
  return { wrapped, paused, resume, calls: () => calls }
}

type Pausing = ReturnType<typeof pausing>
const sinkOn = (records: Bucket, confirmLock = async () => {}) =>
  createNatsSink(connection, { ...buckets, records }, { loadTrustedKeys, confirmLock })

/** Resolves when the batch is written and the cursor moved. */
async function write(sink: Awaited<ReturnType<typeof sinkOn>>, keys: string[], generation: number): Promise<void> {
  const writer = createBucketWriter(sink, systemTiming, async () => {})
  writers.push(writer)
  writer.add(batchOf(keys, generation), keys, generation)
  await writer.finish()
  writer.stop()
  writer.check()
}

test('a publisher that is paused at any step of a write leaves newer records and newer progress in place', async () => {
  let generation = 10
  let steps = 0
  for (const keyIsThere of [true, false])
    for (let at = 1; ; at++) {
      let reached = true
      for (const when of ['before', 'after'] as const) {
        const keys = [1, 2, 3].map(() => `backend.${newId('bkdst')}`)
        if (keyIsThere) await write(await sinkOn(kv), keys, ++generation)
        const [older, newer] = [++generation, ++generation]
        const old: Pausing = pausing(kv, at, when)
        const writing = (async () => write(await sinkOn(old.wrapped), keys, older))()
        reached = await Promise.race([old.paused.then(() => true), writing.then(() => false)])
        if (!reached) break
        await write(await sinkOn(kv), keys, newer)
        old.resume()
        await writing
        for (const key of keys) assert.equal((await payloadOf(key)).generation, newer, `paused ${when} call ${at}`)
        assert.equal((await payloadOf(progressKey)).settled, newer, `paused ${when} call ${at}`)
        steps++
      }
      if (!reached) break
    }
  // One look at the progress; a look and a write for each record, the look left out when it is known; and the progress.
  assert.ok(steps >= 2 * 2 * 8, `${steps} pauses`)
})

const overtaken = async () => {
  throw new Error('the session has ended')
}
const completing = (complete: string, settled: number) => ({
  records: [],
  progress: seal({ after: 0, settled, complete }, signer),
})

test('the next publisher replaces progress of the same generation; one that was overtaken does not', async () => {
  const first = await sinkOn(kv, overtaken)
  await first.keep(completing('first', 1_000_000), [])
  const second = await sinkOn(kv)
  await second.keep(completing('second', 1_000_000), [])
  assert.equal((await payloadOf(progressKey)).complete, 'second')
  await assert.rejects(first.keep(completing('first again', 1_000_000), []), /the session has ended/)
  assert.equal((await payloadOf(progressKey)).complete, 'second')
})

test('a late write of the publisher before does not keep its progress in the bucket', async () => {
  const first = await sinkOn(kv, overtaken)
  await first.keep(completing('first', 1_000_001), [])
  const second = await sinkOn(kv)
  await first.keep(completing('first, late', 1_000_001), [])
  await second.keep(completing('second', 1_000_001), [])
  assert.equal((await payloadOf(progressKey)).complete, 'second')
})

test('after a write that was not answered, the same publisher still replaces its progress', async () => {
  let isLost = false
  const records: Bucket = Object.assign(Object.create(kv), {
    async put(...given: Parameters<Bucket['put']>) {
      if (isLost) throw new Error('TIMEOUT')
      return kv.put(...given)
    },
  })
  const sink = await sinkOn(records)
  await sink.keep({ records: [], progress: seal({ after: 0, settled: 1_000_002 }, signer) }, [])
  isLost = true
  await assert.rejects(sink.keep(completing('after the comparison', 1_000_002), []), /TIMEOUT/)
  isLost = false
  await sink.keep(completing('after the comparison', 1_000_002), [])
  assert.equal((await payloadOf(progressKey)).complete, 'after the comparison')
})

test('an entry that we did not sign is replaced, even if it claims a later generation', async () => {
  const key = `backend.${newId('bkdst')}`
  const other = newSigningKey()
  await kv.put(key, seal({ key, generation: 2 ** 50, value: null }, createSigner(other.publicKey, other.privateKey)))
  assert.equal((await createFencedBucket(kv, { loadTrustedKeys }).put(key, record(key, 5))).outcome, 'written')
  assert.equal((await payloadOf(key)).generation, 5)
  assert.equal((await createFencedBucket(kv, { loadTrustedKeys }).put(key, record(key, 4))).outcome, 'newer')
  assert.equal((await payloadOf(key)).generation, 5)
})
