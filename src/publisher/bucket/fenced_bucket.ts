import { JetStreamApiCodes, JetStreamApiError } from '@nats-io/jetstream'
import { open, type TrustedKeys } from '../../distribution/signature.ts'
import { isPosition } from '../../distribution/validate.ts'
import type { Bucket } from './bucket_server.ts'

export type FencedBucket = {
  /** `newer`: the bucket already has a later entry under this key, and keeps it. */
  put: (key: string, envelope: string) => Promise<{ revision: number; outcome: 'written' | 'newer' }>
  /** Remembers the current entry. If it changes later, another publisher may have written it. */
  expect: (key: string) => Promise<void>
}

export type FenceOptions = {
  /** The keys that sign our entries. Without a valid signature, an entry is not ours. */
  loadTrustedKeys?: () => Promise<TrustedKeys>
  /** Rejects if another publisher may have taken over. */
  confirmLock?: () => Promise<unknown>
}

/** The revision in the bucket, and whether its entry is newer and must stay. */
type Comparison = { revision: number; isNewer?: boolean }

/** A forgotten revision costs a read. */
const maxRevisions = 100_000
const maxAttempts = 20

/**
 * Writes entries so that an older one never replaces a newer one, however long the process was paused in between: NATS
 * accepts a write only if the entry is still the one whose generation was compared. Nodes reject anything older than
 * what they have, but a new node would serve the older state until the next comparison. That can still happen after NATS
 * has lost data, because it then assigns revisions a second time: a late write may meet the revision that it expects.
 *
 * Two entries of one generation may differ, such as a progress before and after a comparison. If another publisher may
 * have written the existing one, only the holder of the lock replaces it. The lock is confirmed after the read, so
 * anything that a successor writes comes later and makes this write fail.
 */
export function createFencedBucket(
  kv: Pick<Bucket, 'get' | 'put'>,
  { loadTrustedKeys, confirmLock }: FenceOptions = {},
): FencedBucket {
  const written = new Map<string, number>()
  const expected = new Map<string, number>()

  async function compare(key: string, envelope: string, isRetry: boolean): Promise<Comparison> {
    const entry = await kv.get(key)
    if (!entry) return { revision: 0 }
    const { revision } = entry
    const stored = entry.string()
    const isContested = isRetry || (expected.get(key) ?? revision) !== revision
    const [theirs, ours] = [positionOf(stored), positionOf(envelope)]
    if (theirs === ours && isContested) await confirmLock?.()
    if (theirs <= ours) return { revision }
    // Unsigned text may claim any generation: only records that we signed stay.
    if (loadTrustedKeys && 'fault' in open(stored, await loadTrustedKeys())) return { revision }
    return { revision, isNewer: true }
  }

  return {
    async put(key, envelope) {
      for (let attempt = 1; ; attempt++) {
        const last = written.get(key)
        const { revision, isNewer }: Comparison =
          last === undefined ? await compare(key, envelope, attempt > 1) : { revision: last }
        if (isNewer) return { revision, outcome: 'newer' }
        try {
          const next = await kv.put(key, envelope, { previousSeq: revision })
          if (written.size >= maxRevisions) written.clear()
          written.set(key, next)
          return { revision: next, outcome: 'written' }
        } catch (error) {
          written.delete(key)
          // Retries even without another publisher, because the replica that answers reads may lag.
          if (!isWrongRevision(error) || attempt === maxAttempts) throw error
        }
      }
    },
    async expect(key) {
      expected.set(key, (await kv.get(key))?.revision ?? 0)
    },
  }
}

const wrongRevisions: readonly number[] = [
  JetStreamApiCodes.StreamWrongLastSequence,
  JetStreamApiCodes.StreamWrongLastSequenceUnknown,
]
const isWrongRevision = (error: unknown): boolean =>
  error instanceof JetStreamApiError && wrongRevisions.includes(error.code)

/** The generation of a record, or the one that a progress entry has reached; -1 if unreadable. */
function positionOf(envelope: string): number {
  try {
    const { generation, settled } = JSON.parse(JSON.parse(envelope).payload)
    const position = generation ?? settled
    return isPosition(position) ? position : -1
  } catch {
    return -1
  }
}
