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

/** A record with the value that the proxy receives: its policy file is in place, its host name is resolved. */
export type Prepared = { record: EdgeRecord; value: unknown }

/** What the proxy receives for any record but a backend, which has to be resolved: of a policy, which files it has. */
export const valueFor = (key: RecordKey, value: RecordValue, rules?: PolicyRecord): unknown =>
  kindOf(key) === 'policy' ? [(value as PolicyRecord).hash, ...(rules ? [rules.hash] : [])].join('.') : value

export type Plan = {
  /** Every record that can be applied, with what was known of it before, and all its entries. The proxy ignores those that are in force already. */
  changes: { record: EdgeRecord; before: EdgeRecord | undefined; after: Entry[] }[]
  del: Entry[]
  /** The records among them that change anything in the proxy. */
  touched: EdgeRecord[]
  /** The others. What was in force of them stays. */
  refused: Refused[]
}

/** Computes the changes from what is in force and what was prepared. Pure: it reads, writes and reports nothing. */
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
 * Records that have arrived or are unfinished, each once, and only if newer than the known one. What is live in a state that was
 * read whole counts even so: an old version may have been put back that says what the database says now, and was signed for.
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
 * With everything there is at hand, a record that is not live there was deleted, and the deletion did not arrive here: it is
 * missing, or is an old one that someone has put back. `unfinished` ones too: their file is gone with them, and the node would
 * wait for it forever.
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

/** What a node has or is about to have, each once. */
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
 * Unfinished records must be read again after a restart, so the position in the bucket stays before them. `since`: how far
 * the node had come before the first of them arrived.
 */
export function heldBack(position: Position, arrivedAt: Position, since: number): Position {
  if (since === Number.POSITIVE_INFINITY) return arrivedAt
  const applied = Math.max(position.applied, Math.min(arrivedAt.applied, since))
  return { ...position, complete: arrivedAt.complete, applied }
}
