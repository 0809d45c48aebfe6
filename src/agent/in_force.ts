import { type EdgeRecord, kindOf, type RecordKey } from '../distribution/records.ts'
import { type Compiler, valueFor } from './plan.ts'

/**
 * The entries of a record that are in force. They follow from the record before a change, except for a backend, whose name
 * may resolve differently by now. Keeping all of them would take half as much memory again.
 */
export function createInForce<Entry>(known: ReadonlyMap<RecordKey, EdgeRecord>, { entriesOf }: Compiler<Entry>) {
  const ofBackends = new Map<RecordKey, Entry[]>()
  return {
    of(key: RecordKey): readonly Entry[] {
      if (kindOf(key) === 'backend') return ofBackends.get(key) ?? []
      const record = known.get(key)
      if (!record || record.value === null) return []
      try {
        return entriesOf(key, valueFor(key, record.value))
      } catch {
        // A record of an earlier version, refused when the node started.
        return []
      }
    },
    remember(key: RecordKey, entries: Entry[]): void {
      if (kindOf(key) !== 'backend') return
      if (entries.length > 0) ofBackends.set(key, entries)
      else ofBackends.delete(key)
    },
  }
}
