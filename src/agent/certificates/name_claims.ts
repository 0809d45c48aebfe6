import type { CertificateRecord, EdgeRecord, RecordKey } from '../../distribution/records.ts'

export type Claim = { key: RecordKey; generation: number; value: CertificateRecord }

/** Which certificates claim which names, from their records. */
export function createNameClaims(known: ReadonlyMap<RecordKey, EdgeRecord>) {
  /** By name: the certificates that claim it. Nearly always one. */
  const claims = new Map<string, Set<RecordKey>>()
  const namesOf = new Map<RecordKey, readonly string[]>()

  return {
    /** Takes in a record as it is now. Returns the names that it claims, or did. */
    update(key: RecordKey): Set<string> {
      const before = namesOf.get(key) ?? []
      const after = (known.get(key)?.value as CertificateRecord | null | undefined)?.names ?? []
      for (const name of before) {
        claims.get(name)?.delete(key)
        if (claims.get(name)?.size === 0) claims.delete(name)
      }
      for (const name of after) claims.set(name, (claims.get(name) ?? new Set()).add(key))
      if (after.length) namesOf.set(key, after)
      else namesOf.delete(key)
      return new Set([...before, ...after])
    },

    names: (): Iterable<string> => claims.keys(),
    of: (key: RecordKey): readonly string[] => namesOf.get(key) ?? [],

    /** Two claim one name while it moves from one certificate to another: the later record knows better. */
    holder(name: string): Claim | undefined {
      let holder: Claim | undefined
      for (const key of claims.get(name) ?? []) {
        const record = known.get(key)
        if (!record?.value || (holder && record.generation <= holder.generation)) continue
        holder = { key, generation: record.generation, value: record.value as CertificateRecord }
      }
      return holder
    },
  }
}
