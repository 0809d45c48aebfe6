import type { Db } from '../../db/pool.ts'
import { writeSalvaging } from '../../db/salvage.ts'
import { type Caller, restrictionTypesFor, type Traffic } from '../../identity/caller.ts'
import { hourOf } from '../../kernel/clock.ts'
import { type AddressOutcome, keptPerAccount, writeOutcomes } from './address_outcomes.ts'

/** A refusal is written again sooner: it counts only once the address is known to have been let in before. */
const refusedAgainMs = 10 * 60 * 1_000
// Beyond this many within one interval, further ones wait for their next time, and that is counted.
const maxPending = 20_000
// About 20 MB. When it is full it is emptied: some rows are then written once more than they had to be.
const maxNoted = 100_000

export type OutcomeBuffer = {
  saw: (outcome: AddressOutcome) => void
  /** Writes what has come together. Call it every second or so, and before the end. */
  flush: () => Promise<void>
}

/**
 * Brings which addresses were let in, and which of them were refused, into the database: each once an hour, or when its
 * outcome is another than before. A client that keeps changing addresses causes at most as many writes an hour.
 */
export function createOutcomeBuffer(db: Db, onLost: (outcomes: number) => void): OutcomeBuffer {
  let pending = new Map<string, AddressOutcome>()
  /** The outcome that was noted last, and when. */
  const noted = new Map<string, { outcome: AddressOutcome['outcome']; at: number }>()
  let written = new Map<string, number>()
  let hourOfNoted = 0

  function isNew(place: string, mark: string, { outcome, at }: AddressOutcome): boolean {
    const known = noted.get(mark)
    if (known?.outcome === outcome && (outcome === 'allowed' || at - known.at < refusedAgainMs)) return false
    // Apart, so that a flood of refused addresses leaves room for those that are let in.
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
        // A row that PostgreSQL refuses is dropped and counted as lost. Kept, it would hold up all others forever.
        await writeSalvaging(
          [...now.values()],
          (outcomes) => writeOutcomes(db, outcomes),
          () => onLost(1),
        )
      } catch (error) {
        // Kept for the next time, together with what has come since, which is newer.
        pending = new Map([...now, ...pending])
        throw error
      }
    },
  }
}

type Decided = { readonly type: Traffic; readonly enforced: boolean; readonly allowed: boolean }

/** For every call that restrictions could have refused, under each type of traffic that it counts as. */
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
