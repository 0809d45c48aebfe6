import { createLiveSet } from '../../distribution/live_set.ts'

/**
 * The live records as they are in the bucket once everything sent is stored, for the digest in the signed progress. A
 * comparison of the bucket with the database makes it; from then on each sent record changes it. It is in memory only: a
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
    /** `generation` is undefined for a resource that is gone. */
    sent(key: string, generation: number | undefined): void {
      put(key, generation)
      sentMeanwhile?.set(key, generation)
    },
    digest: () => set.digest(),
    generations: (): Iterable<[string, number]> => generations,
    /** Call it before the bucket is read. Records sent until `end` win over what was found. */
    beginComparison(): LiveComparison {
      const found = new Map<string, number>()
      const setOfFound = createLiveSet()
      const sent = new Map<string, number | undefined>()
      sentMeanwhile = sent
      return {
        isSent: (key, generation) => generations.has(key) && generations.get(key) !== generation,
        // Counted here, a page at a time: at the end, all of them would hold up the process for a third of a second for each 100,000.
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
  /** Another generation of it was sent, and the bucket must get that one. */
  isSent: (key: string, generation: number) => boolean
  /** It is in the bucket as it should be. */
  found: (key: string, generation: number) => void
  end: () => void
}
