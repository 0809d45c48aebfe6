import { blobName } from '../../distribution/pieces.ts'
import { inParallel } from '../../kernel/flow/in_parallel.ts'
import type { Bucket, Streams } from './bucket_server.ts'

/** Pieces of large policies in NATS, by their hash. */
export type Blobs = {
  putBlobs: (pieces: readonly Buffer[]) => Promise<void>
  /** Rereads which pieces NATS has, instead of trusting an earlier list. */
  refreshBlobs: () => Promise<void>
  /** Call it once all policies have been put. Deletes pieces that no policy used in this pass or the previous one. */
  sweepBlobs: () => Promise<number>
}

export function createBlobs(bucket: string, blobs: Bucket, streams: Streams): Blobs {
  const known = new Set<string>()
  let used = new Set<string>()
  let usedBefore: Set<string> | undefined
  /** A piece that is needed again while it is deleted must be put after the deletion. */
  const leaving = new Map<string, Promise<unknown>>()

  function remove(name: string): Promise<unknown> {
    known.delete(name)
    const gone = streams.purge(`KV_${bucket}`, { filter: `$KV.${bucket}.${name}` })
    leaving.set(name, gone)
    return gone.finally(() => leaving.delete(name))
  }

  return {
    async putBlobs(pieces) {
      const named = pieces.map((piece) => ({ piece, name: blobName(piece) }))
      for (const { name } of named) used.add(name)
      const missing = named.filter(({ name }) => !known.has(name))
      await inParallel(missing, 32, async ({ piece, name }) => {
        await leaving.get(name)
        if ((await blobs.get(name)) === null) await blobs.put(name, piece)
        known.add(name)
      })
      // Only a cache, so forgetting costs a query.
      if (known.size > 100_000) known.clear()
    },
    async refreshBlobs() {
      const names = await Array.fromAsync(await blobs.keys())
      known.clear()
      for (const name of names) known.add(name)
    },
    async sweepBlobs() {
      const unused = usedBefore ? [...known].filter((name) => !used.has(name) && !usedBefore?.has(name)) : []
      usedBefore = used
      used = new Set()
      await inParallel(unused, 32, async (name) => {
        if (!used.has(name)) await remove(name)
      })
      return unused.length
    },
  }
}
