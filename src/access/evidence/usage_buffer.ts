import type { Db } from '../../db/pool.ts'
import { type Caller, restrictionTypesFor } from '../../identity/caller.ts'
import { hourOf } from '../../kernel/clock.ts'
import { toUuid, type Uuid } from '../../kernel/ids.ts'
import type { RestrictionType } from '../policies.ts'
import { type ApiKeyUse, addUses } from './key_uses.ts'
import { addSeenAddresses, type SeenAddress } from './seen_addresses.ts'

// Beyond this many new ones within one interval, further ones wait for their next use, and that is counted.
const maxPending = 20_000
// About 15 MB. When it is full it is emptied: some rows are then written once more than they had to be.
const maxNoted = 100_000

/** That a key was used, and from where. */
type Use = { caller: Caller; sourceIp: string | undefined; replacedToken: Buffer | undefined }

export type Sighting = {
  accountId: Uuid
  /** What kind of traffic it was, in the words of IP restrictions. */
  type: RestrictionType
  /** Undefined when it could not be read. */
  sourceIp: string | undefined
  at: number
  apiKey?: { id: Uuid; replacedToken?: Buffer }
}
export type UsageBuffer = {
  saw: (sighting: Sighting) => void
  /** Writes what has come together. Call it every second or so, and before the end. */
  flush: () => Promise<void>
}

/**
 * Brings when and from where accounts and their keys are used into the database, to the hour, without a write for each
 * request: a process writes a key and an address once an hour, together with what else was new within the second.
 */
export function createUsageBuffer(db: Db, onLost: (usageBuffer: number) => void): UsageBuffer {
  let addresses = new Map<string, SeenAddress>()
  let uses = new Map<string, ApiKeyUse>()
  /** What has been noted within this hour. */
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
        // Kept for the next time, together with what has come since, which is newer.
        addresses = new Map([...addressesNow, ...addresses])
        uses = new Map([...usesNow, ...uses])
        throw error
      }
    },
  }
}

/** To be called for every request with a good token or session, before anything can refuse it. */
export function noteUse(buffer: UsageBuffer, { caller, sourceIp, replacedToken }: Use, at: number): void {
  const apiKey = { id: toUuid(caller.apiKeyId), ...(replacedToken && { replacedToken }) }
  // Under each type whose restrictions decide about it, so that the impact of a change of either shows this address.
  for (const type of restrictionTypesFor(caller))
    buffer.saw({ accountId: caller.accountId, type, sourceIp, at, apiKey })
}
