import { type Progress, progressKey } from '../distribution/channels.ts'
import type { EdgeRecord } from '../distribution/records.ts'
import { digestOf, open, openRecord, type TrustedKeys } from '../distribution/signature.ts'

export type Refused = { key: string; generation: number | null; reason: string }

/** Reads what the control plane has signed, and says of the rest why it is refused. */
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
  const readRecord = (sealed: string, key?: string): EdgeRecord | undefined => {
    const record = openRecord(sealed, keys, key)
    if (!('fault' in record)) return record
    refused({ key: key ?? 'unknown', generation: record.generation ?? null, reason: record.fault })
    return undefined
  }
  return { readProgress, readRecord }
}

function progressIn({ after, settled, complete, floor }: Progress): Progress | undefined {
  if (!Number.isSafeInteger(after) || !Number.isSafeInteger(settled)) return undefined
  return {
    after,
    settled,
    ...(typeof complete === 'string' && { complete }),
    ...(Number.isSafeInteger(floor) && { floor }),
  }
}
