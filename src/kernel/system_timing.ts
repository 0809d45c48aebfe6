import { systemClock } from './clock.ts'
import type { Timing } from './timing.ts'

export const systemTiming: Timing = {
  now: systemClock,
  elapsed: () => performance.now(),
  random: Math.random,
  after(ms, work) {
    const timer = setTimeout(work, ms)
    return () => clearTimeout(timer)
  },
  every(ms, work) {
    const timer = setInterval(work, ms).unref()
    return () => clearInterval(timer)
  },
}
