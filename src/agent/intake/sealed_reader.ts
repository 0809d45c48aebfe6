import { type Progress, progressKey } from '../../distribution/channels.ts'
import type { Signed } from '../../distribution/live_set.ts'
import type { EdgeRecord } from '../../distribution/records.ts'
import { digestOf, open, openRecord, type TrustedKeys } from '../../distribution/signature.ts'
import { isPosition, isRecordKey } from '../../distribution/validate.ts'

export type Refused = { key: string; generation: number | null; reason: string }

/**
 * `unusable`: signed, but this node cannot apply it. `unverified`: something without a valid signature has the place of
 * a record.
 */
export type ReadRecord = { record?: EdgeRecord; unusable?: Signed; unverified?: string }

/** Verifies and parses what the control plane has signed, and reports why it refuses the rest. */
export function createSealedReader(keys: TrustedKeys, refused: (refused: Refused) => void) {
  const readProgress = (sealed: string, records?: readonly string[]): Progress | undefined => {
    const unsealed = open(sealed, keys)
    if ('fault' in unsealed) {
      refused({ key: progressKey, generation: null, reason: unsealed.fault })
      return undefined
    }
    const said = (unsealed.payload ?? {}) as Progress
    if (records && said.digest !== digestOf(records)) {
      refused({ key: progressKey, generation: null, reason: 'came with other records than it was signed for' })
      return undefined
    }
    const progress = progressIn(said)
    if (!progress) refused({ key: progressKey, generation: null, reason: 'is not a progress' })
    return progress
  }
  const readRecord = (sealed: string, key?: string): ReadRecord => {
    const record = openRecord(sealed, keys, key)
    if (!('fault' in record)) return { record }
    const { fault, signed } = record
    refused({ key: key ?? 'unknown', generation: signed?.generation ?? null, reason: fault })
    if (signed) return { unusable: signed }
    return key !== undefined && isRecordKey(key) ? { unverified: key } : {}
  }
  return { readProgress, readRecord }
}

function progressIn({ after, settled, bucket, complete, floor, live }: Progress): Progress | undefined {
  if (!isPosition(after) || !isPosition(settled)) return undefined
  return {
    after,
    settled,
    ...(typeof bucket === 'string' && { bucket }),
    ...(typeof complete === 'string' && { complete }),
    ...(isPosition(floor) && { floor }),
    ...(typeof live === 'string' && { live }),
  }
}
