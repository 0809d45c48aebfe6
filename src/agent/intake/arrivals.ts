import { createLiveSet, type LiveSet, type Signed, signedOf } from '../../distribution/live_set.ts'
import type { EdgeRecord, RecordKey } from '../../distribution/records.ts'
import type { Released } from './intake.ts'

/**
 * Tracks everything that has arrived at this node, for comparison with the control plane's digest of live records. A
 * record that could not be applied counts as arrived: the node refuses and reports it separately.
 */
export function createArrivals(known: ReadonlyMap<RecordKey, EdgeRecord>) {
  /** Newer than the known versions, but not applied. The node reads them again after a restart. */
  const unapplied = new Map<string, Signed>()
  let live: LiveSet | undefined
  let differs = false

  const current = (key: string): Signed | undefined => {
    const record = known.get(key as RecordKey)
    return unapplied.get(key) ?? (record && signedOf(record))
  }
  /** Built on demand: a node with a million records starts from its disk without it. */
  function liveSet(): LiveSet {
    if (live) return live
    live = createLiveSet()
    for (const { key, generation, value } of known.values())
      if (value !== null && !unapplied.has(key)) live.add(key, generation)
    for (const { key, generation, isLive } of unapplied.values()) if (isLive) live.add(key, generation)
    return live
  }

  function setWith(arriving: readonly Signed[]): LiveSet {
    const next = liveSet().copy()
    for (const { key, generation, isLive } of arriving) {
      const before = current(key)
      if (before && before.generation >= generation) continue
      if (before?.isLive) next.remove(key, before.generation)
      if (isLive) next.add(key, generation)
    }
    return next
  }

  return {
    /**
     * Call it before `known` changes, and the returned function afterwards. Undefined if these records lead to another
     * state than the control plane has signed: the caller must not apply them and has to read everything again.
     */
    expect(
      released: readonly Released[],
      arriving: ReadonlyMap<RecordKey, EdgeRecord>,
      reached: number,
    ): (() => void) | undefined {
      const unusable = released.flatMap((each) => each.unusable ?? [])
      const signed = [...[...arriving.values()].map(signedOf), ...unusable]
      const whole = released.findLast(({ isWhole }) => isWhole)
      // The intake has already compared it. It replaces everything up to its generation, even newer versions of single
      // records.
      if (whole)
        return () => {
          for (const [key, { generation }] of unapplied) if (generation <= whole.applied) unapplied.delete(key)
          arrived(signed, undefined)
        }
      const digest = digestAfter(released, reached)
      const next = digest === undefined && live === undefined ? undefined : setWith(signed)
      if (digest === undefined || next?.digest() === digest) return () => arrived(signed, next)
      differs = true
      return undefined
    },
    differs: () => differs,
    isReadAgain(): void {
      differs = false
    },
  }

  function arrived(arriving: readonly Signed[], next: LiveSet | undefined): void {
    live = next
    for (const each of arriving) {
      const applied = known.get(each.key as RecordKey)
      if (applied && applied.generation >= each.generation) unapplied.delete(each.key)
      else if ((unapplied.get(each.key)?.generation ?? 0) < each.generation) unapplied.set(each.key, each)
    }
  }
}

function digestAfter(released: readonly Released[], reached: number): string | undefined {
  const last = released.at(-1)
  if (!last || last.applied < reached) return undefined
  return last.live
}

/**
 * Splits arrivals after the last digest, if more follows. A digest can only be compared with the state that it describes, and a new
 * publisher sends changes before it knows one: without the comparison they would hide records that were lost before them.
 */
export function untilDigest(released: readonly Released[]): (readonly Released[])[] {
  const end = released.findLastIndex(({ live }) => live !== undefined) + 1
  return end === 0 || end === released.length ? [released] : [released.slice(0, end), released.slice(end)]
}
