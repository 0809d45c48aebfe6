import { route } from '../../http/route.ts'
import { toPage } from '../../kernel/paging.ts'
import { AuditEventList, AuditEventQuery } from './schema.ts'
import { listAuditEvents } from './store.ts'

export const auditEventRoutes = [
  route({
    operation: 'audit_events.list',
    summary: 'List audit events, newest first',
    method: 'GET',
    path: '/audit_events',
    query: AuditEventQuery,
    success: 200,
    response: AuditEventList,
    access: 'admin',
    async handle({ db, caller, query, uri }) {
      const { items, ...page } = toPage(await listAuditEvents(db, caller, query), query, uri('/audit_events'))
      return { body: { audit_events: items, ...page } }
    },
  }),
]
