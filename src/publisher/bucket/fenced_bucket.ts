import { JetStreamApiCodes, JetStreamApiError } from '@nats-io/jetstream'
import { open, type TrustedKeys } from '../../distribution/signature.ts'
import type { Bucket } from './bucket_server.ts'

export type FencedBucket = {
  /** `same` and `newer`: the bucket has such an entry under this key already, which stays. */
  put: (key: string, envelope: string) => Promise<{ revision: number; outcome: 'written' | 'same' | 'newer' }>
  /** Notes which entry is there now: if another publisher replaces it, an entry of the same generation stays too. */
  expect: (key: string) => Promise<void>
}

/** Which revision is in the bucket, and why it must not be replaced. */
type Comparison = { revision: number; stays?: 'same' | 'newer' }

/** A forgotten revision costs a read. */
const maxRevisions = 100_000
const maxAttempts = 20

/**
 * Writes entries so that an older one never replaces a newer one, however long the process stood still between two steps:
 * NATS accepts a write only while the entry is still the one whose generation was compared.
 */
export function createFencedBucket(
  kv: Pick<Bucket, 'get' | 'put'>,
  loadTrustedKeys?: () => Promise<TrustedKeys>,
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
    if (theirs < ours || (theirs === ours && !isContested)) return { revision }
    // Unsigned text may claim any generation: only records that we signed stay.
    if (loadTrustedKeys && 'fault' in open(stored, await loadTrustedKeys())) return { revision }
    return { revision, stays: theirs > ours ? 'newer' : 'same' }
  }

  return {
    async put(key, envelope) {
      for (let attempt = 1; ; attempt++) {
        const last = written.get(key)
        const { revision, stays }: Comparison =
          last === undefined ? await compare(key, envelope, attempt > 1) : { revision: last }
        if (stays) return { revision, outcome: stays }
        try {
          const next = await kv.put(key, envelope, { previousSeq: revision })
          if (written.size >= maxRevisions) written.clear()
          written.set(key, next)
          return { revision: next, outcome: 'written' }
        } catch (error) {
          written.delete(key)
          // More than one attempt even without another publisher: a replica that answers reads may be behind.
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

/** The generation of a record, or the one that a progress entry has reached. -1 for what cannot be read. */
function positionOf(envelope: string): number {
  try {
    const { generation, settled } = JSON.parse(JSON.parse(envelope).payload)
    const position = generation ?? settled
    return Number.isSafeInteger(position) ? position : -1
  } catch {
    return -1
  }
}
