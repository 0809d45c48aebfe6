import type { EdgeRecord, RecordKey } from '../../distribution/records.ts'

export type Claim<Value> = { key: RecordKey; generation: number; value: Value }

/** Tracks which records of a kind claim which names. */
export function createNameClaims<Value>(
  known: ReadonlyMap<RecordKey, EdgeRecord>,
  namesIn: (value: Value) => readonly string[],
) {
  /** The claiming records by name. A name nearly always has one. */
  const claims = new Map<string, Set<RecordKey>>()
  const namesOf = new Map<RecordKey, readonly string[]>()

  return {
    /** Reads the current record. Returns its present and former names. */
    update(key: RecordKey): Set<string> {
      const before = namesOf.get(key) ?? []
      const value = known.get(key)?.value as Value | null | undefined
      const after = value ? namesIn(value) : []
      for (const name of before) {
        claims.get(name)?.delete(key)
        if (claims.get(name)?.size === 0) claims.delete(name)
      }
      for (const name of after) claims.set(name, (claims.get(name) ?? new Set()).add(key))
      if (after.length) namesOf.set(key, after)
      else namesOf.delete(key)
      return new Set([...before, ...after])
    },

    names: () => claims.keys(),
    isEmpty: (): boolean => claims.size === 0,
    of: (key: RecordKey): readonly string[] => namesOf.get(key) ?? [],

    /** Two records claim a name while it moves from one to the other. The one with the higher generation wins. */
    holder(name: string): Claim<Value> | undefined {
      let holder: Claim<Value> | undefined
      for (const key of claims.get(name) ?? []) {
        const record = known.get(key)
        if (!record?.value || (holder && record.generation <= holder.generation)) continue
        holder = { key, generation: record.generation, value: record.value as Value }
      }
      return holder
    },
  }
}
export type NameClaims<Value> = ReturnType<typeof createNameClaims<Value>>
