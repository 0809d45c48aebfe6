import { createLiveSet } from '../../distribution/live_set.ts'

/**
 * The live records that the bucket will have once everything sent is stored, for the digest in the signed progress. A
 * comparison of the bucket with the database builds it; each sent record then updates it. It is in memory only: a
 * process that takes over compares first.
 */
export function createLiveRecords() {
  let generations = new Map<string, number>()
  let set = createLiveSet()
  let sentMeanwhile: Map<string, number | undefined> | undefined

  function put(key: string, generation: number | undefined): void {
    const before = generations.get(key)
    if (before !== undefined) set.remove(key, before)
    if (generation === undefined) generations.delete(key)
    else {
      generations.set(key, generation)
      set.add(key, generation)
    }
  }

  return {
    /** `generation` is undefined for a deleted resource. */
    sent(key: string, generation: number | undefined): void {
      put(key, generation)
      sentMeanwhile?.set(key, generation)
    },
    digest: () => set.digest(),
    generations: (): Iterable<[string, number]> => generations,
    /** Call it before the bucket is read. Records sent until `end` override what was found. */
    beginComparison(): LiveComparison {
      const found = new Map<string, number>()
      const setOfFound = createLiveSet()
      const sent = new Map<string, number | undefined>()
      sentMeanwhile = sent
      return {
        isSent: (key, generation) => generations.has(key) && generations.get(key) !== generation,
        // Counted per page: doing it all at the end would block the process for a third of a second per 100,000 records.
        found(key, generation) {
          found.set(key, generation)
          setOfFound.add(key, generation)
        },
        end() {
          generations = found
          set = setOfFound
          for (const [key, generation] of sent) put(key, generation)
          sentMeanwhile = undefined
        },
      }
    },
  }
}
export type LiveRecords = ReturnType<typeof createLiveRecords>

export type LiveComparison = {
  /** Another generation of the record was sent, which the bucket must get. */
  isSent: (key: string, generation: number) => boolean
  /** The bucket has the correct record. */
  found: (key: string, generation: number) => void
  end: () => void
}
