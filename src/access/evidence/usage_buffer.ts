import type { Db } from '../../db/pool.ts'
import { type Caller, restrictionTypesFor } from '../../identity/caller.ts'
import { hourOf } from '../../kernel/clock.ts'
import { toUuid, type Uuid } from '../../kernel/ids.ts'
import type { RestrictionType } from '../policies.ts'
import { type ApiKeyUse, addUses } from './key_uses.ts'
import { addSeenAddresses, type SeenAddress } from './seen_addresses.ts'

// Limit within one interval. Further ones wait for their next use and are counted as lost.
const maxPending = 20_000
// About 15 MB. The set is cleared when full, so a few rows are written once more than necessary.
const maxNoted = 100_000

type Use = { caller: Caller; sourceIp: string | undefined; replacedToken: Buffer | undefined }

export type Sighting = {
  accountId: Uuid
  /** Type of traffic, as IP restrictions name it. */
  type: RestrictionType
  /** Undefined if it could not be parsed. */
  sourceIp: string | undefined
  at: number
  apiKey?: { id: Uuid; replacedToken?: Buffer }
}
export type UsageBuffer = {
  saw: (sighting: Sighting) => void
  /** Writes the pending uses. Call it about once a second and before exit. */
  flush: () => Promise<void>
}

/**
 * Collects when and from where accounts and keys are used, to the hour. A process writes each key and address once an
 * hour, batched by the second, instead of once per request.
 */
export function createUsageBuffer(db: Db, onLost: (usageBuffer: number) => void): UsageBuffer {
  let addresses = new Map<string, SeenAddress>()
  let uses = new Map<string, ApiKeyUse>()
  /** Already noted within this hour. */
  const noted = new Set<string>()
  let hourOfNoted = 0

  function isNew(mark: string, hour: number): boolean {
    if (hour !== hourOfNoted || noted.size >= maxNoted) noted.clear()
    hourOfNoted = hour
    if (noted.has(mark)) return false
    if (addresses.size >= maxPending || uses.size >= maxPending) {
      onLost(1)
      return false
    }
    noted.add(mark)
    return true
  }

  return {
    saw({ accountId, type, sourceIp, at, apiKey }) {
      const hour = hourOf(at)
      const token = apiKey && `${apiKey.id} ${apiKey.replacedToken?.toString('hex')}`
      if (!isNew(`${token ?? accountId} ${type} ${sourceIp}`, hour)) return
      if (sourceIp) addresses.set(`${accountId} ${type} ${sourceIp}`, { accountId, type, sourceIp, hour })
      if (!apiKey || !token) return
      uses.set(token, {
        accountId,
        apiKeyId: apiKey.id,
        sourceIp: sourceIp ?? null,
        hour,
        ...(apiKey.replacedToken && { replacedToken: apiKey.replacedToken }),
      })
    },
    async flush() {
      const [addressesNow, usesNow] = [addresses, uses]
      addresses = new Map()
      uses = new Map()
      try {
        if (usesNow.size) await addUses(db, [...usesNow.values()])
        usesNow.clear()
        if (addressesNow.size) await addSeenAddresses(db, [...addressesNow.values()])
      } catch (error) {
        // Retried at the next flush. Newer uses win.
        addresses = new Map([...addressesNow, ...addresses])
        uses = new Map([...usesNow, ...uses])
        throw error
      }
    },
  }
}

/** Call it for every request with a valid token or session, before a restriction can refuse it. */
export function noteUse(buffer: UsageBuffer, { caller, sourceIp, replacedToken }: Use, at: number): void {
  const apiKey = { id: toUuid(caller.apiKeyId), ...(replacedToken && { replacedToken }) }
  // Noted under each type whose restrictions decide about it, so that a preview of either type includes this address.
  for (const type of restrictionTypesFor(caller))
    buffer.saw({ accountId: caller.accountId, type, sourceIp, at, apiKey })
}
