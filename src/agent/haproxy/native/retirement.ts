import type { Turns } from '../process/turns.ts'
import type { ProxySettings } from '../settings.ts'
import type { Definition } from './definition.ts'
import { isIdle, remove, removeNow, revive, unpublish } from './runtime.ts'

/** Time for requests that have read the old name to reach the backend. */
const graceMs = 2_000
const tickMs = 1_000
/** Limit for each backend: every change may leave one behind for as long as its connections last. */
const maxPerId = 10

type Retired = { readonly since: number; isUnpublished: boolean; isIncomplete: boolean }

/**
 * Unused native backends. They stay until their requests and connections have ended; a new worker does not have them.
 */
export function createRetirement(settings: ProxySettings, turns: Turns, trouble: (error: unknown) => void) {
  const retired = new Map<string, Retired>()
  const idOf = (name: string): string => name.slice(0, name.lastIndexOf('.'))

  async function step(name: string, state: Retired, mustEnd: boolean): Promise<void> {
    if (!state.isUnpublished) {
      if (Date.now() - state.since < graceMs) return
      await unpublish(settings, name)
      state.isUnpublished = true
    }
    if (!mustEnd && !(await isIdle(settings, name))) return
    state.isIncomplete = true
    if (await remove(settings, name, mustEnd)) retired.delete(name)
  }

  async function tick(): Promise<void> {
    const left = new Map<string, number>()
    // Newest first, so that those beyond the limit are the oldest, which have had the longest time.
    for (const [name, state] of [...retired].reverse()) {
      const id = idOf(name)
      left.set(id, (left.get(id) ?? 0) + 1)
      await turns.next(async () => {
        // It may be in use again by now.
        if (retired.get(name) === state) await step(name, state, (left.get(id) ?? 0) > maxPerId)
      })
    }
  }

  let running: Promise<void> | undefined
  const timer = setInterval(() => {
    if (retired.size > 0)
      running ??= tick()
        .catch(trouble)
        .finally(() => (running = undefined))
  }, tickMs).unref()

  return {
    add(names: Iterable<string>): void {
      for (const name of names) retired.set(name, { since: Date.now(), isUnpublished: false, isIncomplete: false })
    },
    /** Call this when a retired backend is needed again. False if it has to be created. */
    async revive(definition: Definition): Promise<boolean> {
      const state = retired.get(definition.name)
      if (!state) return false
      retired.delete(definition.name)
      if (state.isIncomplete) await removeNow(settings, definition.name)
      else if (state.isUnpublished) await revive(settings, definition)
      return !state.isIncomplete
    },
    /** Call this for a new worker, which has no retired backends. */
    clear: (): void => retired.clear(),
    has: (name: string): boolean => retired.has(name),
    size: (): number => retired.size,
    async stop(): Promise<void> {
      clearInterval(timer)
      await running
    },
  }
}
export type Retirement = ReturnType<typeof createRetirement>
