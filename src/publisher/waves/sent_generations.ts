import { type Progress, progressKey } from '../../distribution/channels.ts'
import { createLiveSet } from '../../distribution/live_set.ts'
import type { EdgeRecord } from '../../distribution/records.ts'
import { open, type TrustedKeys } from '../../distribution/signature.ts'
import type { NatsSink } from '../bucket/nats_sink.ts'

/**
 * The generation under which each record was last sent to the first wave. The bucket alone is not proof, because held
 * records are signed again.
 */
export type SentGenerations = {
  /** Undefined if unknown. */
  of: (key: string) => number | 'gone' | undefined
  /** Undefined for a deleted resource. */
  note: (key: string, generation: number | undefined) => void
  /** Adopts the result of a comparison for records that are still unknown. */
  complete: (live: () => Iterable<[string, number]>) => void
}

/** Starts with the bucket of an earlier process, if it matches a signed progress that is not older than `least`. */
export async function openSentGenerations(
  natsSink: Pick<NatsSink, 'contents'>,
  trusted: TrustedKeys,
  least: number,
): Promise<SentGenerations> {
  let digest: string | undefined
  const found = await natsSink.contents((text, key) => {
    const opened = open(text, trusted)
    if ('fault' in opened) return undefined
    const { generation, value, live, settled = 0 } = opened.payload as Partial<Progress & EdgeRecord>
    if (key === progressKey && settled >= least) digest = live
    return value === null ? undefined : generation
  })
  found.delete(progressKey)
  const generations = new Map<string, number>()
  const set = createLiveSet()
  for (const [key, generation] of found) {
    if (generation === undefined) continue
    generations.set(key, generation)
    set.add(key, generation)
  }
  let isKnown = digest !== undefined && digest === set.digest()
  if (!isKnown) generations.clear()
  const noted = new Set<string>()

  return {
    of(key) {
      const generation = generations.get(key)
      if (generation !== undefined) return generation
      return isKnown || noted.has(key) ? 'gone' : undefined
    },
    note(key, generation) {
      if (!isKnown) noted.add(key)
      if (generation === undefined) generations.delete(key)
      else generations.set(key, generation)
    },
    complete(live) {
      if (isKnown) return
      for (const [key, generation] of live()) if (!noted.has(key)) generations.set(key, generation)
      noted.clear()
      isKnown = true
    },
  }
}
