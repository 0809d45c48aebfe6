import { type EdgeRecord, kindOf, type PolicyRecord, type RecordKey } from '../distribution/records.ts'
import type { Prepared } from './plan.ts'
import { PieceMissing, type PolicyFiles } from './policy_files.ts'
import type { Refusals } from './refusals.ts'
import type { Upstreams } from './upstreams/upstreams.ts'

type Parts = { known: ReadonlyMap<RecordKey, EdgeRecord>; policyFiles: PolicyFiles; upstreams: Upstreams }

/** Everything that a record needs before it can be planned: its policy file on disk, its host name looked up. */
export function createPreparation({ known, policyFiles, upstreams }: Parts, refusals: Refusals) {
  /** Believed, but not to be had completely yet: a piece of a policy is missing. Nothing after it counts as applied. */
  const unfinished = new Map<RecordKey, EdgeRecord>()

  /** What the proxy receives. */
  async function valueFor(record: EdgeRecord): Promise<unknown> {
    const { key, value } = record
    const kind = kindOf(key)
    if (value === null) {
      if (kind === 'backend') upstreams.forget(key)
      return null
    }
    if (kind === 'backend') return upstreams.resolve(record, refusals.upstreams)
    if (kind !== 'policy') return value
    await policyFiles.prepare(value as PolicyRecord)
    return (value as PolicyRecord).hash
  }

  return {
    unfinished: unfinished as ReadonlyMap<RecordKey, EdgeRecord>,

    /** Those that cannot be prepared are refused, or kept for another try. */
    async prepare(records: readonly EdgeRecord[]): Promise<Prepared[]> {
      const prepared: Prepared[] = []
      await upstreams.prepare(records, known)
      for (const record of records) {
        const { key, generation } = record
        try {
          prepared.push({ record, value: await valueFor(record) })
          unfinished.delete(key)
        } catch (error) {
          if (error instanceof PieceMissing) unfinished.set(key, record)
          else {
            unfinished.delete(key)
            refusals.refuse({ key, generation, reason: (error as Error).message })
          }
        }
      }
      return prepared
    },

    /** Must not run while anything is prepared, or a file could be removed that was just found to be there. */
    sweep(): Promise<number> {
      const policies = [...known.values(), ...unfinished.values()]
        .filter(({ key, value }) => value !== null && kindOf(key) === 'policy')
        .map(({ value }) => value as PolicyRecord)
      return policyFiles.sweep(policies)
    },
  }
}
export type Preparation = ReturnType<typeof createPreparation>
