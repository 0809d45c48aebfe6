import { toId } from '../../kernel/ids.ts'
import { shownAnnotations } from '../../operations/annotations.ts'
import type { AlertRow } from './alert_store.ts'
import type { RuleRow } from './rule_store.ts'
import type { Alert, AlertRule } from './schema.ts'

/** A rule that is no longer evaluated must not look healthy. */
const staleAfterMs = 2 * 60_000

export function toAlertRule(row: RuleRow, uri: (path: string) => string): AlertRule {
  const id = toId('alr', row.id)
  return {
    id,
    uri: uri(`/alert_rules/${id}`),
    created_at: row.created_at,
    ...shownAnnotations(row),
    kind: row.kind,
    resource_id: row.resource_id,
    for_seconds: row.for_seconds,
    percent: row.percent,
    window_minutes: row.window_minutes,
    enabled: row.enabled,
    silenced_until: row.silenced_until,
    state: stateOf(row),
    evaluated_at: row.evaluated_at,
  }
}

function stateOf({ enabled, firing, unclear, age_ms }: RuleRow): AlertRule['state'] {
  if (!enabled) return 'disabled'
  if (firing > 0) return 'firing'
  return unclear > 0 || age_ms === null || age_ms > staleAfterMs ? 'unknown' : 'fine'
}

/** Fields that only a change alters. */
export const stableRuleFields = ({ state: _, evaluated_at: __, ...fields }: AlertRule) => fields

export function toAlert(row: AlertRow, uri: (path: string) => string): Alert {
  const id = toId('alt', row.id)
  return {
    id,
    uri: uri(`/alerts/${id}`),
    rule_id: toId('alr', row.rule_id),
    kind: row.kind,
    resource_id: row.resource_id || null,
    state: row.state,
    reason: row.reason,
    since: row.since,
    fired_at: row.fired_at,
    unclear_since: row.unclear_since,
    resolved_at: row.resolved_at,
    notified_at: row.notified_at,
  }
}
