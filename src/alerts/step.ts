import { rfc3339 } from '../kernel/clock.ts'
import { newUuid } from '../kernel/ids.ts'
import type { AlertRow } from '../resources/alerts/alert_store.ts'
import type { RuleRow } from '../resources/alerts/rule_store.ts'
import type { Observation } from './observe.ts'

/** `gone`: a pending alert ended before it fired, so no one is notified. */
export type Step = { readonly alert: AlertRow | undefined; readonly change?: 'fired' | 'resolved' | 'gone' }

const maxReasonBytes = 1_000
function shortened(reason: string): string {
  if (Buffer.byteLength(reason) <= maxReasonBytes) return reason
  return `${Buffer.from(reason)
    .subarray(0, maxReasonBytes - 4)
    .toString('utf8')
    .replace(/\uFFFD+$/, '')}…`
}

/** The next state of an alert after this observation. A condition that flaps does not resolve it in between. */
export function step(
  before: AlertRow | undefined,
  { holds, reason: said }: Observation,
  { rule, about, now, resolveAfterMs }: { rule: RuleRow; about: string; now: number; resolveAfterMs: number },
): Step {
  const at = rfc3339(now)
  const reason = shortened(said)
  if (!before) {
    if (holds !== true) return { alert: undefined }
    const alert: AlertRow = {
      ...{ id: newUuid(), rule_id: rule.id, kind: rule.kind, resource_id: about, state: 'pending', reason, since: at },
      ...{ fired_at: null, clear_since: null, unclear_since: null, resolved_at: null, notified_at: null },
    }
    return fireIfDue(alert, rule, now)
  }
  if (holds === undefined)
    // The condition may have held again meanwhile: an alert resolves only after an unbroken clear period.
    return { alert: { ...before, clear_since: null, unclear_since: before.unclear_since ?? at } }
  if (holds) {
    const alert = { ...before, reason, clear_since: null, unclear_since: null }
    return before.state === 'pending' ? fireIfDue(alert, rule, now) : { alert }
  }
  if (before.state === 'pending') return { alert: before, change: 'gone' }
  const clear_since = before.clear_since ?? at
  const alert: AlertRow = { ...before, clear_since, unclear_since: null }
  if (now - Date.parse(clear_since) < resolveAfterMs) return { alert }
  return { alert: { ...alert, state: 'resolved', resolved_at: at }, change: 'resolved' }
}

function fireIfDue(alert: AlertRow, { for_seconds }: RuleRow, now: number): Step {
  if (now - Date.parse(alert.since) < for_seconds * 1_000) return { alert }
  return { alert: { ...alert, state: 'firing', fired_at: rfc3339(now) }, change: 'fired' }
}

/** Its rule was deleted, disabled or changed to another subject. */
export function end(before: AlertRow, now: number, reason: string): Step {
  if (before.state === 'pending') return { alert: before, change: 'gone' }
  return {
    alert: { ...before, state: 'resolved', resolved_at: rfc3339(now), reason, unclear_since: null },
    change: 'resolved',
  }
}
