import type { AllowedAddress } from '../../distribution/channels.ts'
import { type EdgeRequest, isAddressRefused } from '../../distribution/requests.ts'
import { hourOf } from '../../kernel/clock.ts'

/** Same limit as the control plane has for an account. */
const maxPerAccount = 10_000
/** About 10 MB on the node. */
const maxNoted = 50_000
const maxPending = 10_000

/**
 * Records which addresses were allowed where, each once an hour. From this, the control plane finds the addresses that a
 * change has shut out. Under a flood of addresses, those beyond the limits wait for the next hour.
 */
export function createAllowed() {
  let pending = new Map<string, AllowedAddress>()
  const noted = new Set<string>()
  const ofAccount = new Map<string, number>()
  let hourOfNoted = 0

  const startHour = (hour: number) => {
    noted.clear()
    ofAccount.clear()
    hourOfNoted = hour
  }
  return {
    note(request: EdgeRequest, now: number): void {
      const { outcome, account, route, edge, source } = request
      const target = route ?? edge
      if (target === null) return
      const hour = hourOf(now)
      if (hour !== hourOfNoted) startHour(hour)
      const key = keyOf({ target, source })
      // Forgotten, so that the next allowed request is reported.
      if (isAddressRefused(request)) noted.delete(key)
      if ((outcome !== 'allowed' && outcome !== 'warned') || noted.has(key)) return
      const count = ofAccount.get(account ?? target) ?? 0
      if (count >= maxPerAccount || noted.size >= maxNoted || pending.size >= maxPending) return
      ofAccount.set(account ?? target, count + 1)
      noted.add(key)
      pending.set(key, { target, source, lastAt: new Date(now).toISOString() })
    },
    /** Takes all pending addresses. Call `giveBack` with those that were not delivered. */
    take(): AllowedAddress[] {
      const taken = [...pending.values()]
      pending = new Map()
      return taken
    },
    giveBack(addresses: readonly AllowedAddress[]): void {
      pending = new Map([...addresses.map((address) => [keyOf(address), address] as const), ...pending])
    },
  }
}
const keyOf = ({ target, source }: Pick<AllowedAddress, 'target' | 'source'>): string => `${target} ${source}`

export type Allowed = ReturnType<typeof createAllowed>
