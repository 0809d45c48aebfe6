import { createLiveSet, type Signed, signedOf } from '../../distribution/live_set.ts'
import type { EdgeRecord, RecordKey } from '../../distribution/records.ts'
import type { ReadRecord } from './sealed_reader.ts'

/**
 * Entries that were read from the bucket and are not released yet. `isCounting`: the read covers everything, for
 * comparison with the digest.
 */
export function createStaging(isCounting: boolean) {
  const records = new Map<RecordKey, EdgeRecord>()
  const unusable = new Map<string, Signed>()
  const unverified = new Set<string>()
  const live = createLiveSet()
  let newest = 0

  /** False if an earlier entry of the same record is newer. */
  function note(signed: Signed): boolean {
    const { key, generation, isLive } = signed
    const record = records.get(key as RecordKey)
    const before = unusable.get(key) ?? (record && signedOf(record))
    if (before && before.generation >= generation) return false
    unverified.delete(key)
    unusable.delete(key)
    newest = Math.max(newest, generation)
    if (isCounting && before?.isLive) live.remove(key, before.generation)
    if (isCounting && isLive) live.add(key, generation)
    return true
  }

  return {
    add({ record, unusable: refused, unverified: key }: ReadRecord): void {
      if (record && note(signedOf(record))) records.set(record.key, record)
      if (refused && note(refused)) unusable.set(refused.key, refused)
      if (key) unverified.add(key)
    },
    /** Compares with the control plane's digest. Without a digest, true if every entry was verified. */
    isWhole: (digest: string | undefined): boolean =>
      digest === undefined ? unverified.size === 0 : digest === live.digest(),
    newest: () => newest,
    size: () => records.size,
    isEmpty: () => records.size + unusable.size + unverified.size === 0,
    records: () => [...records.values()],
    unusable: () => [...unusable.values()],
  }
}
