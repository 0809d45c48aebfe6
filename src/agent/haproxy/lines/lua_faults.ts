import type { Clock } from '../../../kernel/clock.ts'
import type { Log } from '../../../kernel/log.ts'
import { plainText } from '../../../kernel/text.ts'

const sayAgainMs = 10_000

/** Counts failures of gatehouse.lua, each of which refused a request or a connection. Limits how often it logs one. */
export function createLuaFaults(log: Log, clock: Clock) {
  let count = 0
  let saidAt = Number.NEGATIVE_INFINITY
  return {
    note(fault: string): void {
      count++
      if (clock() - saidAt < sayAgainMs) return
      saidAt = clock()
      log.error(
        { fault: plainText(fault, 400), count },
        'gatehouse.lua failed in HAProxy: what needed it is refused. This is a bug, or Lua has no memory left',
      )
    },
    count: (): number => count,
  }
}
