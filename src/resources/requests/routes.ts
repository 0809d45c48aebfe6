import { findRefusal } from '../../access/evidence/refusals.ts'
import type { Db } from '../../db/pool.ts'
import type { EdgeRequest } from '../../distribution/requests.ts'
import { etagOf } from '../../http/preconditions.ts'
import { route } from '../../http/route.ts'
import type { Caller } from '../../identity/caller.ts'
import { forbidden, notFound } from '../../kernel/errors.ts'
import { isId, toId, type Uuid } from '../../kernel/ids.ts'
import { canonicalCidr } from '../../kernel/ip/canonical_cidr.ts'
import { toPage } from '../../kernel/paging.ts'
import { cellsOf } from '../../operations/placement.ts'
import { Request, RequestList, RequestQuery, StreamEvents, StreamQuery } from './schema.ts'
import { countDroppedRequests, findRequest, listRequests } from './store.ts'
import { toApiCall, toRequest } from './view.ts'

export const requestRoutes = [
  route({
    operation: 'requests.list',
    summary: 'List requests that edges refused, warned about, limited or failed, newest first',
    method: 'GET',
    path: '/requests',
    query: RequestQuery,
    success: 200,
    response: RequestList,
    access: 'anyone',
    errors: ['ERR_FORBIDDEN'],
    async handle({ db, caller, query, uri }) {
      refuseSourceFilter(caller, query)
      const found = await listRequests(db, caller, query)
      const { items, ...page } = toPage(
        found.map((request) => visibleTo(caller, toRequest(request, uri))),
        query,
        uri('/requests'),
      )
      return { body: { requests: items, ...page, dropped: await countDroppedRequests(db, caller, query) } }
    },
  }),
  route({
    operation: 'requests.stream',
    summary:
      'Watch requests as they happen, including allowed ones. The response is a stream of server-sent events that stays open; nothing of it is stored',
    method: 'GET',
    path: '/requests/stream',
    query: StreamQuery,
    success: 200,
    events: StreamEvents,
    access: 'anyone',
    errors: ['ERR_FORBIDDEN', 'ERR_TOO_MANY_OPERATIONS'],
    async handle({ db, caller, query, edges, uri }) {
      refuseSourceFilter(caller, query)
      const { edge_id = null, outcome = null, source_ip } = query
      const filter = {
        account: toId('ac', caller.accountId),
        cells: (await cellsOf(db, caller.accountId)).map(({ name }) => name),
        edge: edge_id,
        outcome,
        source: source_ip === undefined ? null : canonicalCidr(source_ip),
      }
      return {
        body: undefined,
        events: ({ emit, lost }) =>
          edges.watch(filter, {
            // Sent by a node and checked by readTail().
            onRequest: (request) => emit('request', visibleTo(caller, toRequest(request as EdgeRequest, uri))),
            onDropped: lost,
          }),
      }
    },
  }),
  route({
    operation: 'requests.get',
    summary:
      'Find out what happened to a request. The id is the X-Request-Id of its response, or the operation id of a call of the API that an IP restriction refused',
    method: 'GET',
    path: '/requests/:id',
    params: { id: 'request' },
    success: 200,
    response: Request,
    tagged: true,
    access: 'anyone',
    adminsOnly: 'look up refused calls of the API, by operation id',
    async handle({ db, caller, params: { id }, uri }) {
      const body = isId('op', id)
        ? await findApiCall(db, caller, id, uri)
        : await findEdgeRequest(db, caller, id as Uuid, uri)
      return { body, etag: etagOf(body) }
    },
  }),
]

async function findEdgeRequest(db: Db, caller: Caller, id: Uuid, uri: (path: string) => string): Promise<Request> {
  const found = await findRequest(db, caller, id)
  if (!found) throw notFound('request')
  return visibleTo(caller, toRequest(found, uri))
}

/** Visitors' addresses are personal data; as with refusals and warnings, only admins see them. */
const visibleTo = ({ role }: Caller, request: Request): Request =>
  role === 'admin' ? request : { ...request, source_ip: null }

/** Filtering by ever smaller ranges would reveal the address. */
function refuseSourceFilter({ role }: Caller, { source_ip }: { source_ip?: string }): void {
  if (source_ip !== undefined && role !== 'admin') throw forbidden('Only admins can filter requests by source_ip.')
}

/** For admins only, like refusals: API calls identify people and keys, not only visitors. */
async function findApiCall(
  db: Db,
  caller: Caller,
  id: `op_${string}`,
  uri: (path: string) => string,
): Promise<Request> {
  if (caller.role !== 'admin') throw forbidden('Only admins can look up refused calls of the API.')
  const found = await findRefusal(db, caller, id)
  if (!found) throw notFound('request')
  return toApiCall(found, uri)
}
