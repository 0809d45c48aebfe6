import type { Db, DbPool } from '../db/pool.ts'
import { transaction } from '../db/transaction.ts'
import type { HealthRequest } from '../health/facts.ts'
import { newId, toId, type Uuid } from '../kernel/ids.ts'
import { record } from '../operations/change.ts'
import {
  type AlertRow,
  countNotified,
  forgetBeyondCount,
  openAlerts,
  writeAlerts,
} from '../resources/alerts/alert_store.ts'
import {
  enabledRules,
  type Found,
  holdTurn,
  type RuleRow,
  type Turn,
  writeFound,
} from '../resources/alerts/rule_store.ts'
import { toAlert } from '../resources/alerts/view.ts'
import { type Observations, observeRule } from './observe.ts'
import { end, type Step, step } from './step.ts'

export type TurnParts = {
  readonly db: DbPool
  readonly clock: () => number
  readonly edges: HealthRequest['edges']
  readonly uri: (path: string) => string
  readonly resolveAfterMs: number
  /** Called after an alert fired or was resolved. */
  readonly count: (change: 'fired' | 'resolved') => void
}

/** Open alerts per rule. Further ones are opened when one of these ends. */
const openPerRule = 100
/** Notifications per account and hour. Further alerts are listed, and notified later if they still fire. */
const toldPerHour = 30

/**
 * Evaluates all rules of an account and updates its alerts. The process that has the turn writes an alert and its event
 * in one transaction, so no event is lost or duplicated. Webhooks deliver the event at least once, under its id.
 */
export async function evaluateAccount(parts: TurnParts, turn: Turn): Promise<void> {
  const { db, clock, edges } = parts
  const { accountId } = turn
  const rules = await enabledRules(db, accountId)
  const open = await openAlerts(db, accountId)
  let isRead = true
  const request = {
    ...{ db, clock, edges, caller: { accountId } },
    noteStatusUnread() {
      isRead = false
    },
  }
  const now = clock()
  const steps: { rule: RuleRow | undefined; before: AlertRow | undefined; step: Step }[] = []
  const found: Found[] = []
  for (const rule of rules) {
    const observations = await observeRule(request, rule)
    // Skips the write if the data could not be read, so that the rule does not appear evaluated.
    if (!isRead) throw new Error('the database did not answer, so alert rules were not evaluated')
    const own = open.filter(({ rule_id }) => rule_id === rule.id)
    const taken = stepsOf({ rule, own, observations }, { now, resolveAfterMs: parts.resolveAfterMs })
    steps.push(...taken.map((each) => ({ rule, ...each })))
    found.push({
      id: rule.id,
      firing: taken.filter(({ step: { alert } }) => alert?.state === 'firing').length,
      unclear: [...observations.values()].filter(({ holds }) => holds === undefined).length,
    })
  }
  const known = new Set(rules.map(({ id }) => id))
  for (const before of open.filter(({ rule_id }) => !known.has(rule_id)))
    steps.push({ rule: undefined, before, step: end(before, now, 'Its rule was deleted or disabled.') })
  const isWritten = await transaction(db, async (tx) => {
    if (!(await holdTurn(tx, turn))) return false
    await tell(tx, parts, accountId, steps, now)
    if (steps.some(({ step: { change } }) => change === 'resolved')) await forgetBeyondCount(tx, accountId)
    // Last, to avoid a deadlock: a change set may already have written an event and lock the rule next.
    await writeFound(tx, accountId, found)
    return true
  })
  if (!isWritten) return
  for (const {
    step: { change },
  } of steps)
    if (change === 'fired' || change === 'resolved') parts.count(change)
}

function stepsOf(
  { rule, own, observations }: { rule: RuleRow; own: readonly AlertRow[]; observations: Observations },
  settings: { now: number; resolveAfterMs: number },
): { before: AlertRow | undefined; step: Step }[] {
  const byAbout = new Map(own.map((alert) => [alert.resource_id, alert]))
  const known = own.map((before) => {
    const about = before.resource_id
    if (rule.resource_id !== null && about !== rule.resource_id)
      return { before, step: end(before, settings.now, 'Its rule is about something else now.') }
    const seen = observations.get(about) ?? { holds: false, reason: before.reason }
    return { before, step: step(before, seen, { rule, about, ...settings }) }
  })
  const isNew = [...observations].filter(([about, { holds }]) => holds === true && !byAbout.has(about))
  const begun = isNew
    .slice(0, Math.max(0, openPerRule - own.length))
    .map(([about, seen]) => ({ before: undefined, step: step(undefined, seen, { rule, about, ...settings }) }))
  return [...known, ...begun]
}

type Taken = { rule: RuleRow | undefined; before: AlertRow | undefined; step: Step }

/** Writes the alerts, and an audit event for each that must be notified; webhooks read those events. */
async function tell(tx: Db, { uri }: TurnParts, accountId: Uuid, steps: readonly Taken[], now: number): Promise<void> {
  let room = toldPerHour - (await countNotified(tx, accountId))
  const written: AlertRow[] = []
  const events: { operation: string; before: AlertRow | null; after: AlertRow }[] = []
  for (const {
    rule,
    before,
    step: { alert, change },
  } of steps) {
    if (!alert || change === 'gone') continue
    const isSilenced = rule?.silenced_until != null && Date.parse(rule.silenced_until) > now
    const isToTell = alert.state === 'firing' && alert.notified_at === null && !isSilenced && room > 0
    if (isToTell) room--
    const after = isToTell ? { ...alert, notified_at: new Date(now).toISOString() } : alert
    if (isToTell) events.push({ operation: 'alerts.fire', before: null, after })
    // Recipients of the alert learn that it is resolved, even during a silence.
    if (change === 'resolved' && after.notified_at !== null)
      events.push({ operation: 'alerts.resolve', before: before ?? null, after })
    if (JSON.stringify(after) !== JSON.stringify(before)) written.push(after)
  }
  const gone = steps.flatMap(({ before, step: { change } }) => (change === 'gone' && before ? [before.id] : []))
  await writeAlerts(tx, accountId, { written, gone })
  // Late, because a transaction that has written an event makes others wait until it ends.
  for (const { operation, before, after } of events)
    await record(
      tx,
      { accountId, operation, operationId: newId('op') },
      {
        resourceId: toId('alt', after.id),
        before: before && toAlert(before, uri),
        after: toAlert(after, uri),
      },
    )
}
