import { setTimeout } from 'node:timers/promises'
import { clockOffset, maxClockOffsetMs } from '../kernel/clock.ts'

export type Status = 'ok' | 'warning' | 'failed'

/** The result of a check. Neither text ever contains a secret, because people paste them into tickets. */
export type Finding = {
  /** Stable, for scripts: area and check, such as `postgresql.version`. */
  check: string
  status: Status
  message: string
  /** What to do; empty if nothing. */
  hint: string
}

export const ok = (check: string, message: string): Finding => ({ check, status: 'ok', message, hint: '' })
export const warning = (check: string, message: string, hint: string): Finding => ({
  check,
  status: 'warning',
  message,
  hint,
})
export const failed = (check: string, message: string, hint: string): Finding => ({
  check,
  status: 'failed',
  message,
  hint,
})

/** With a wrong setting there is nothing to connect to, so the other checks are skipped. */
export const isUsable = (findings: Finding[]): boolean => findings.every(({ status }) => status !== 'failed')

export const answerTimeoutMs = 5_000
/** Timeout of all checks of an area together. */
const areaTimeoutMs = 15_000

/** Never rejects, and ends after a timeout: a dead dependency must not hide the results of other checks. */
export async function bounded(area: string, check: Promise<Finding[]>): Promise<Finding[]> {
  const late = setTimeout(areaTimeoutMs, undefined, { ref: false }).then(() => [
    failed(
      area,
      `no result within ${areaTimeoutMs / 1_000} s`,
      'It or this machine is overloaded, or something on the way, such as a firewall, answers nothing',
    ),
  ])
  const broken = (error: Error) => [failed(area, error.message || String(error), 'Fix this first, then run it again')]
  return Promise.race([check.catch(broken), late])
}

const dayMs = 24 * 60 * 60 * 1_000
/** A certificate that expires within this time gets a warning. */
const soonMs = 14 * dayMs

export function expiryFinding(check: string, what: string, from: Date, to: Date, renew: string): Finding {
  const left = to.getTime() - Date.now()
  const until = to.toISOString().slice(0, 10)
  if (left <= 0) return failed(check, `${what} expired on ${until}`, renew)
  if (from.getTime() > Date.now())
    return failed(check, `${what} is not valid before ${from.toISOString()}`, "Check this machine's clock")
  if (left < soonMs) return warning(check, `${what} expires in ${Math.floor(left / dayMs)} days, on ${until}`, renew)
  return ok(check, `${what} is valid until ${until}`)
}

/** Clock offsets that get a warning, and that break expiry times and certificates. */
const clockMs = { warning: 1_000, failed: maxClockOffsetMs }

/** `theirs` was read by the other machine between `asked` and `answered`. */
export function clockFinding(check: string, other: string, asked: number, theirs: number, answered: number): Finding {
  const offset = clockOffset(asked, theirs, answered)
  const apart = Math.abs(offset)
  const far = `this machine's clock is ${(apart / 1_000).toFixed(1)} s ${offset > 0 ? 'ahead of' : 'behind'} that of ${other}`
  const hint = 'Synchronize both with NTP, for example with systemd-timesyncd or chrony'
  if (apart > clockMs.failed) return failed(check, far, hint)
  return apart > clockMs.warning
    ? warning(check, far, hint)
    : ok(check, `agrees with ${other} within ${clockMs.warning / 1_000} s`)
}
