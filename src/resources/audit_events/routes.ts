import { type Handling, route } from '../../http/route.ts'
import { invalidField } from '../../kernel/errors.ts'
import { toId, toUuid } from '../../kernel/ids.ts'
import { maxPageSize, pageUri } from '../../kernel/paging.ts'
import { AuditEventList, AuditEventQuery } from './schema.ts'
import { beginning, type Found, listAuditEvents, listCommittedEvents, placeOf } from './store.ts'
import { toAuditEvent } from './view.ts'

type Listing = Pick<Handling<unknown, AuditEventQuery, unknown>, 'db' | 'caller' | 'query'>

export const auditEventRoutes = [
  route({
    operation: 'audit_events.list',
    summary:
      'List audit events, newest first. A page looks at no more than 5,000 events if several filters are combined, so that it may have few results, or none, although next_page_uri is not null',
    method: 'GET',
    path: '/audit_events',
    query: AuditEventQuery,
    success: 200,
    response: AuditEventList,
    access: 'admin',
    async handle(request) {
      const { query, uri } = request
      const { rows, lastSeen } = await (query.order === 'committed' ? committed(request) : newest(request))
      const { limit = maxPageSize } = query
      const events = rows.slice(0, limit).map(toAuditEvent)
      const last = rows.length > limit ? events.at(-1)?.id : lastSeen && toId('ev', lastSeen)
      const cursor = query.order === 'committed' ? 'after_id' : 'before_id'
      const listUri = uri('/audit_events')
      const next_page_uri = last ? pageUri(listUri, { ...query, [cursor]: last }) : null
      return { body: { audit_events: events, uri: listUri, next_page_uri } }
    },
  }),
]

function newest({ db, caller, query }: Listing): Promise<Found> {
  if (query.after_id) throw invalidField('after_id', 'can be used only with order=committed')
  return listAuditEvents(db, caller, query)
}

async function committed({ db, caller, query }: Listing): Promise<Found> {
  if (query.before_id) throw invalidField('before_id', 'cannot be used with order=committed; use after_id')
  const after = query.after_id ? await placeOf(db, caller, toUuid(query.after_id)) : beginning
  if (!after) throw invalidField('after_id', 'is not an audit event of this account, or is past its retention')
  return listCommittedEvents(db, caller, after, query)
}
