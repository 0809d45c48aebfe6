import { signedOf } from '../distribution/live_set.ts'
import {
  type EdgeRecord,
  kindOf,
  type PolicyRecord,
  type RecordKey,
  type RecordValue,
} from '../distribution/records.ts'
import type { Position } from './disk/record_log.ts'
import { difference, type Entry, entriesOf } from './haproxy/maps/entries.ts'
import type { Released } from './intake/intake.ts'
import type { Refused } from './intake/sealed_reader.ts'

/** A record and the value for the proxy: its policy file is in place, its host name resolved. */
export type Prepared = { record: EdgeRecord; value: unknown }

/** The proxy's value for any record except a backend, which has to be resolved. For a policy, it names the files. */
export const valueFor = (key: RecordKey, value: RecordValue, rules?: PolicyRecord): unknown =>
  kindOf(key) === 'policy' ? [(value as PolicyRecord).hash, ...(rules ? [rules.hash] : [])].join('.') : value

export type Plan = {
  /**
   * Every applicable record with its previous version and all its entries. The proxy ignores entries already in force.
   */
  changes: { record: EdgeRecord; before: EdgeRecord | undefined; after: Entry[] }[]
  del: Entry[]
  touched: EdgeRecord[]
  /** The other records. Their last good version stays in force. */
  refused: Refused[]
}

/** Computes the changes from what is in force and what was prepared. Pure: it has no side effects. */
export function plan(
  prepared: Iterable<Prepared>,
  known: ReadonlyMap<RecordKey, EdgeRecord>,
  inForce: (key: RecordKey) => readonly Entry[],
): Plan {
  const planned: Plan = { changes: [], del: [], touched: [], refused: [] }
  for (const { record, value } of prepared) {
    const { key, generation } = record
    try {
      const after = value === null ? [] : entriesOf(key, value)
      const { set, del } = difference(inForce(key), after)
      for (const entry of del) planned.del.push(entry)
      if (set.length || del.length) planned.touched.push(record)
      planned.changes.push({ record, before: known.get(key), after })
    } catch (error) {
      planned.refused.push({ key, generation, reason: (error as Error).message })
    }
  }
  return planned
}

/**
 * Records that have arrived or are unfinished, each once, and only if newer than the known one. A live record of a
 * complete, signed read also replaces a newer one: an old version may have been put back that matches the database
 * again.
 */
export function newest(
  released: readonly Released[],
  unfinished: ReadonlyMap<RecordKey, EdgeRecord>,
  known: ReadonlyMap<RecordKey, EdgeRecord>,
): Map<RecordKey, EdgeRecord> {
  const found = new Map(unfinished)
  for (const { records, isWhole, applied } of released)
    for (const record of records) {
      const { key, generation, value } = record
      const before = found.get(key) ?? known.get(key)
      const isNewer = !before || generation > before.generation
      const isPutBack = isWhole && value !== null && generation !== before?.generation
      if (isNewer || (isPutBack && before.generation <= applied)) found.set(key, record)
    }
  return found
}

/**
 * After a complete read, a record that is not live in it was deleted, and the deletion never arrived: it is missing, or
 * someone has put back an old one. This includes `unfinished` records: their file is gone too, and the node would wait
 * for it forever.
 */
export function deletionsBy(
  released: readonly Released[],
  known: ReadonlyMap<RecordKey, EdgeRecord>,
  unfinished: ReadonlyMap<RecordKey, EdgeRecord>,
): EdgeRecord[] {
  const whole = released.findLast(({ isWhole }) => isWhole)
  if (!whole || known.size + unfinished.size === 0) return []
  const all = new Map([...whole.records.map(signedOf), ...(whole.unusable ?? [])].map((each) => [each.key, each]))
  const isGone = ({ key, generation }: EdgeRecord): boolean => {
    const found = all.get(key)
    return generation < whole.applied && (!found || (!found.isLive && found.generation <= generation))
  }
  return [...livingIn(known, unfinished)]
    .filter(isGone)
    .map(({ key }) => ({ key, generation: whole.applied, value: null }))
}

/** Every live record that a node has or is about to have, each once. */
export function* livingIn(
  known: ReadonlyMap<RecordKey, EdgeRecord>,
  unfinished: ReadonlyMap<RecordKey, EdgeRecord>,
): Generator<EdgeRecord> {
  for (const record of known.values()) if (record.value !== null && !unfinished.has(record.key)) yield record
  for (const record of unfinished.values()) if (record.value !== null) yield record
}

export function positionAfter(reached: Position, released: readonly Released[]): Position {
  let { applied, revision, bucket, complete } = reached
  for (const batch of released) {
    applied = Math.max(applied, batch.applied)
    complete = true
    if (batch.read && batch.read.bucket !== bucket) ({ bucket, revision } = batch.read)
    else if (batch.read) revision = Math.max(revision, batch.read.revision)
  }
  return { applied, revision, bucket, complete }
}

/**
 * Keeps the bucket position before unfinished records, which must be read again after a restart. `since`: how far the
 * node had come before the first of them arrived.
 */
export function heldBack(position: Position, arrivedAt: Position, since: number): Position {
  if (since === Number.POSITIVE_INFINITY) return arrivedAt
  const applied = Math.max(position.applied, Math.min(arrivedAt.applied, since))
  return { ...position, complete: arrivedAt.complete, applied }
}
