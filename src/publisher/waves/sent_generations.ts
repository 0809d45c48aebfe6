import { type Progress, progressKey } from '../../distribution/channels.ts'
import { createLiveSet } from '../../distribution/live_set.ts'
import type { EdgeRecord } from '../../distribution/records.ts'
import { open, type TrustedKeys } from '../../distribution/signature.ts'
import type { NatsSink } from '../bucket/nats_sink.ts'

/**
 * Under which generation each record was sent last to the first wave. What the bucket says alone is not believed: held
 * records are signed again.
 */
export type SentGenerations = {
  /** Undefined when it is not known. */
  of: (key: string) => number | 'gone' | undefined
  /** Undefined for a resource that is gone. */
  note: (key: string, generation: number | undefined) => void
  /** Takes over what a comparison has found, if nothing better is known. */
  complete: (live: () => Iterable<[string, number]>) => void
}

/**
 * Begins with the bucket as another process has left it, if it is as a signed progress says that is not older than `least`.
 */
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
