import type { Db } from '../../db/pool.ts'
import { writeSalvaging } from '../../db/salvage.ts'
import { type Caller, restrictionTypesFor, type Traffic } from '../../identity/caller.ts'
import { hourOf } from '../../kernel/clock.ts'
import { type AddressOutcome, keptPerAccount, writeOutcomes } from './address_outcomes.ts'

/** Refusals are written again sooner: one counts only if the address is already known to have been let in. */
const refusedAgainMs = 10 * 60 * 1_000
// Limit within one interval. Outcomes beyond it wait for their next occurrence and are counted as lost.
const maxPending = 20_000
// About 20 MB. The map is cleared when full, so a few rows are written once more than necessary.
const maxNoted = 100_000

export type OutcomeBuffer = {
  saw: (outcome: AddressOutcome) => void
  /** Writes the pending outcomes. Call it about once a second and before exit. */
  flush: () => Promise<void>
}

/**
 * Collects which addresses were let in or refused, and writes each once an hour or when its outcome changes. This also
 * bounds the writes caused by a client that keeps changing addresses.
 */
export function createOutcomeBuffer(db: Db, onLost: (outcomes: number) => void): OutcomeBuffer {
  let pending = new Map<string, AddressOutcome>()
  /** The last outcome noted, and its time. */
  const noted = new Map<string, { outcome: AddressOutcome['outcome']; at: number }>()
  let written = new Map<string, number>()
  let hourOfNoted = 0

  function isNew(place: string, mark: string, { outcome, at }: AddressOutcome): boolean {
    const known = noted.get(mark)
    if (known?.outcome === outcome && (outcome === 'allowed' || at - known.at < refusedAgainMs)) return false
    // Separate limits, so that a flood of refused addresses leaves room for allowed ones.
    const share = `${place} ${outcome}`
    const count = written.get(share) ?? 0
    if (pending.size >= maxPending || (!known && count >= keptPerAccount)) {
      onLost(1)
      return false
    }
    if (!known) written.set(share, count + 1)
    noted.set(mark, { outcome, at })
    return true
  }

  const keyOf = (place: string, { ip, outcome }: AddressOutcome) => `${place} ${ip} ${outcome}`
  const placeOf = (seen: AddressOutcome) => ('accountId' in seen ? `${seen.accountId} ${seen.type}` : seen.targetId)

  return {
    saw(seen) {
      const hour = hourOf(seen.at)
      if (hour > hourOfNoted || noted.size >= maxNoted) {
        noted.clear()
        if (hour > hourOfNoted) written = new Map()
        hourOfNoted = Math.max(hour, hourOfNoted)
      }
      const place = placeOf(seen)
      if (isNew(place, `${place} ${seen.ip}`, seen)) pending.set(keyOf(place, seen), seen)
    },
    async flush() {
      const now = pending
      pending = new Map()
      try {
        // A row that PostgreSQL rejects is dropped and counted as lost. Keeping it would block all others forever.
        await writeSalvaging(
          [...now.values()],
          (outcomes) => writeOutcomes(db, outcomes),
          () => onLost(1),
        )
      } catch (error) {
        // Retried at the next flush. Newer outcomes win.
        pending = new Map([...now, ...pending])
        throw error
      }
    },
  }
}

type Decided = { readonly type: Traffic; readonly enforced: boolean; readonly allowed: boolean }

/**
 * Call it for every request that restrictions could have refused. It notes the address under each of the caller's types
 * of traffic.
 */
export function noteOutcomes(
  buffer: OutcomeBuffer,
  caller: Caller,
  ip: string | undefined,
  decisions: readonly Decided[],
  at: number,
): void {
  if (ip === undefined) return
  for (const type of restrictionTypesFor(caller)) {
    const isRefused = decisions.some((each) => each.type === type && each.enforced && !each.allowed)
    buffer.saw({ accountId: caller.accountId, type, ip, outcome: isRefused ? 'refused' : 'allowed', at })
  }
}
