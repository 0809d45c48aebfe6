import type { Db } from '../../db/pool.ts'
import { Closed } from '../../http/wire.ts'
import type { Caller } from '../../identity/caller.ts'
import { invalidField } from '../../kernel/errors.ts'
import { type IdPrefix, isId, oneOf } from '../../kernel/ids.ts'
import { newAnnotations, patchedAnnotations } from '../../operations/annotations.ts'
import { actionRoute, createRoute, deleteRoute, updateRoute } from '../../operations/change_routes.ts'
import { getRoute, listRoute } from '../../operations/read_routes.ts'
import type { Resource } from '../../operations/resource.ts'
import { type AlertRow, findAlert, listAlerts } from './alert_store.ts'
import {
  deleteRule,
  findRule,
  hasWatched,
  insertRule,
  listRules,
  type RuleFields,
  type RuleRow,
  updateRule,
} from './rule_store.ts'
import {
  Alert,
  AlertQuery,
  AlertRule,
  AlertRuleCreate,
  AlertRuleQuery,
  AlertRuleUpdate,
  type Condition,
  conditions,
} from './schema.ts'
import { stableRuleFields, toAlert, toAlertRule } from './view.ts'

const rules: Resource<{ id: 'alr' }, RuleRow, typeof AlertRule> = {
  name: 'alert_rules',
  quota: 'alert_rules',
  path: '/alert_rules',
  params: { id: 'alr' },
  shape: AlertRule,
  view: toAlertRule,
  find: findRule,
  stableFields: stableRuleFields,
}
const alerts: Resource<{ id: 'alt' }, AlertRow, typeof Alert> = {
  name: 'alerts',
  path: '/alerts',
  params: { id: 'alt' },
  shape: Alert,
  view: toAlert,
  find: (db, caller, id) => findAlert(db, caller, id),
}

type Sent = Partial<RuleFields>

/** Checks the fields against the kind, which never changes. */
async function checked(tx: Db, caller: Caller, kind: Condition, sent: Sent): Promise<void> {
  const { resource_id, percent, window_minutes } = sent
  if (kind !== 'errors') {
    if (percent != null) throw invalidField('percent', 'must be omitted unless the kind is errors')
    if (window_minutes != null) throw invalidField('window_minutes', 'must be omitted unless the kind is errors')
  }
  if (!resource_id) return
  const prefixes: readonly IdPrefix[] = conditions[kind]
  const fitting = prefixes.some((prefix) => isId(prefix, resource_id))
  if (prefixes.length === 0) throw invalidField('resource_id', `must be omitted with kind ${kind}`)
  if (!fitting) throw invalidField('resource_id', `must be the id of ${prefixes.map(oneOf).join(' or ')}`)
  if (!(await hasWatched(tx, caller, resource_id)))
    throw invalidField('resource_id', `must be ${prefixes.map(oneOf).join(' or ')} of this account`)
}

export const alertRoutes = [
  createRoute(rules, {
    access: 'admin',
    body: AlertRuleCreate,
    async insert(tx, { caller, body }) {
      const { kind, resource_id = null, percent = null, window_minutes = null } = body
      const { for_seconds = 60, enabled = true, silenced_until = null } = body
      await checked(tx, caller, kind, body as Sent)
      return insertRule(tx, caller, {
        ...newAnnotations(body),
        ...{ kind, resource_id, percent, window_minutes, for_seconds, enabled, silenced_until },
      })
    },
  }),
  getRoute(rules, { access: 'anyone' }),
  listRoute(rules, { access: 'anyone', field: 'alert_rules', query: AlertRuleQuery, select: listRules }),
  updateRoute(rules, {
    access: 'admin',
    body: AlertRuleUpdate,
    async apply(tx, { caller, body: { id: _, ...sent } }, before) {
      await checked(tx, caller, before.kind, sent as Sent)
      return updateRule(tx, caller, before.id, { ...before, ...sent, ...patchedAnnotations(before, sent) })
    },
  }),
  actionRoute(rules, {
    verb: 'test',
    summary: 'Send a test of an alert rule to every webhook destination that alerts are sent to',
    access: 'admin',
    body: Closed({}),
    apply: async (_tx, _request, before) => before,
    audited: () => ({ tested: true }),
  }),
  deleteRoute(rules, {
    summary: 'Delete an alert rule. Its alerts that fire are resolved',
    access: 'admin',
    remove: (tx, { caller }, before) => deleteRule(tx, caller, before.id),
  }),
  getRoute(alerts, { access: 'anyone' }),
  listRoute(alerts, { access: 'anyone', field: 'alerts', query: AlertQuery, select: listAlerts }),
]
