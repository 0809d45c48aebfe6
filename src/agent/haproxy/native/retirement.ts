import type { Turns } from '../process/turns.ts'
import type { ProxySettings } from '../settings.ts'
import type { Definition } from './definition.ts'
import { isIdle, remove, removeNow, revive, unpublish } from './runtime.ts'

/** A request that has read the old name goes on to it within this time. */
const graceMs = 2_000
const tickMs = 1_000
/** Limit for one backend: each change may leave one behind for as long as its connections last. */
const maxPerId = 10

type Retired = { readonly since: number; isUnpublished: boolean; isIncomplete: boolean }

/**
 * Native backends that nothing chooses any more. They stay until their requests and connections have ended, so that these
 * finish; a new worker does not have them.
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
    // From the newest: the oldest have had the longest time.
    for (const [name, state] of [...retired].reverse()) {
      const id = idOf(name)
      left.set(id, (left.get(id) ?? 0) + 1)
      await turns.next(async () => {
        // It may be wanted again by now.
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
    /** For one that is wanted again. False when it has to be made. */
    async revive(definition: Definition): Promise<boolean> {
      const state = retired.get(definition.name)
      if (!state) return false
      retired.delete(definition.name)
      if (state.isIncomplete) await removeNow(settings, definition.name)
      else if (state.isUnpublished) await revive(settings, definition)
      return !state.isIncomplete
    },
    /** A new worker has none of them. */
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
