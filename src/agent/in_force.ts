import { type EdgeRecord, kindOf, type RecordKey } from '../distribution/records.ts'
import { type Entry, entriesOf } from './haproxy/maps/entries.ts'
import { valueFor } from './plan.ts'

/** Their entries depend on more than the record: on resolved addresses, or on the file of the policy's rules. */
const isRemembered = (key: RecordKey): boolean => kindOf(key) === 'backend' || kindOf(key) === 'policy'

/**
 * The entries of a record that are in force. They are derived from the record, except those of backends and policies,
 * which are stored. Storing all of them would take half as much memory again.
 */
export function createInForce(known: ReadonlyMap<RecordKey, EdgeRecord>) {
  const kept = new Map<RecordKey, Entry[]>()
  return {
    of(key: RecordKey): readonly Entry[] {
      if (isRemembered(key)) return kept.get(key) ?? []
      const record = known.get(key)
      if (!record || record.value === null) return []
      try {
        return entriesOf(key, valueFor(key, record.value))
      } catch {
        // The record comes from an earlier version and was refused when the node started.
        return []
      }
    },
    remember(key: RecordKey, entries: Entry[]): void {
      if (!isRemembered(key)) return
      if (entries.length > 0) kept.set(key, entries)
      else kept.delete(key)
    },
  }
}
