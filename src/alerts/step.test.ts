import assert from 'node:assert/strict'
import { test } from 'node:test'
import { rfc3339 } from '../kernel/clock.ts'
import { newUuid } from '../kernel/ids.ts'
import type { AlertRow } from '../resources/alerts/alert_store.ts'
import type { RuleRow } from '../resources/alerts/rule_store.ts'
import { end, step } from './step.ts'

const rule: RuleRow = {
  ...{ id: newUuid(), kind: 'backend_down', resource_id: null, for_seconds: 60, percent: null, window_minutes: null },
  ...{ description: null, metadata: null, enabled: true, silenced_until: null, created_at: rfc3339(0) },
  ...{ evaluated_at: null, age_ms: null, firing: 0, unclear: 0 },
}
const resolveAfterMs = 300_000

/** What happens when these are seen, one every 15 seconds. */
function changesOf(seen: readonly (boolean | undefined)[]) {
  let alert: AlertRow | undefined
  const changes: string[] = []
  for (const [index, holds] of seen.entries()) {
    const now = index * 15_000
    const next = step(alert, { holds, reason: 'x' }, { rule, about: 'a', now, resolveAfterMs })
    if (next.change) changes.push(`${next.change} ${now / 1_000}`)
    alert = next.change === 'gone' || next.change === 'resolved' ? undefined : next.alert
  }
  return { changes, alert }
}
const times = <T>(count: number, value: T): T[] => Array.from({ length: count }, () => value)

test('an alert fires once its condition has held for as long as its rule says, and never while that is unknown', () => {
  assert.deepEqual(changesOf(times(5, true)).changes, ['fired 60'])
  assert.deepEqual(changesOf(times(4, true)).changes, [])
  assert.deepEqual(changesOf([true, true, false, true, true, true, true]).changes, ['gone 30'])
  const unclear = changesOf([true, ...times(20, undefined)])
  assert.deepEqual([unclear.changes, unclear.alert?.state], [[], 'pending'])
  assert.deepEqual(changesOf([...times(20, undefined)]).alert, undefined)
})

test('it is resolved once it has been fine without a break, and what is unknown is a break', () => {
  const fired = times(5, true)
  assert.deepEqual(changesOf([...fired, ...times(21, false)]).changes, ['fired 60', 'resolved 375'])
  assert.deepEqual(changesOf([...fired, ...times(20, false)]).changes, ['fired 60'])
  const silent = changesOf([...fired, ...times(2_000, undefined)])
  assert.deepEqual([silent.changes, silent.alert?.state], [['fired 60'], 'firing'])
  assert.equal(silent.alert?.unclear_since, rfc3339(75_000))
  const broken = [...fired, ...times(15, false), undefined, ...times(15, false), true, ...times(15, false)]
  assert.deepEqual(changesOf(broken).changes, ['fired 60'])
})

test('a condition that comes and goes all day fires once', () => {
  const day = Array.from({ length: 4 * 60 * 24 }, (_, index) => index % 20 < 10)
  assert.deepEqual(changesOf(day).changes, ['fired 60'])
})

test('an alert whose rule is gone is over, and a long reason is cut between characters', () => {
  const { alert } = step(
    undefined,
    { holds: true, reason: 'ü'.repeat(900) },
    { rule: { ...rule, for_seconds: 0 }, about: 'a', now: 0, resolveAfterMs },
  )
  assert.ok(alert && Buffer.byteLength(alert.reason) <= 1_000 && !alert.reason.includes('\uFFFD'))
  assert.equal(end(alert, 1, 'Its rule was deleted.').alert?.state, 'resolved')
  assert.equal(end({ ...alert, state: 'pending' }, 1, 'x').change, 'gone')
})
