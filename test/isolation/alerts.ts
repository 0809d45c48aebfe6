import { type DbPool, run } from '../../src/db/pool.ts'
import { sql } from '../../src/db/sql.ts'
import { type Id, newUuid, toId, toUuid } from '../../src/kernel/ids.ts'
import { backend } from './backends.ts'
import type { Expectation, Make } from './expectation.ts'
import { id, make } from './make.ts'

// Disabled: its evaluation would look like a change by a refused call.
const newRule = () => ({ kind: 'backend_down', enabled: false })
const rule = make('/alert_rules', newRule)

/** An alert that is over, as an evaluation leaves it. */
const alertIn =
  (database: () => DbPool): Make =>
  async (as) => {
    const [rule_id, { body: caller }, alert] = [await rule(as), await as('GET', '/caller'), newUuid()]
    await run(
      database(),
      sql`
      insert into alerts (account_id, id, rule_id, kind, resource_id, state, reason, since, resolved_at)
      values (${toUuid(caller.account_id)}, ${alert}, ${toUuid(rule_id as Id)}, 'backend_down', '', 'resolved', 'It was down.',
        now(), now())`,
    )
    return toId('alt', alert)
  }

export const alertExpectations = (database: () => DbPool): Record<string, Expectation> => ({
  'alert_rules.create': { admin: 201, member: 403, body: newRule, references: { resource_id: backend } },
  'alert_rules.get': { admin: 200, member: 200, path: id(rule) },
  'alert_rules.list': { admin: 200, member: 200, lists: rule },
  'alert_rules.update': {
    admin: 200,
    member: 403,
    path: id(rule),
    body: () => ({ description: 'other' }),
    references: { resource_id: backend },
  },
  'alert_rules.test': { admin: 200, member: 403, path: id(rule), body: () => ({}) },
  'alert_rules.delete': { admin: 204, member: 403, path: id(rule) },
  'alerts.get': { admin: 200, member: 200, path: id(alertIn(database)) },
  'alerts.list': { admin: 200, member: 200, lists: alertIn(database), filters: { rule_id: rule } },
})
