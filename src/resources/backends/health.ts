import { type TObject, Type } from 'typebox'
import { serverStatus } from '../../health/backends.ts'
import { StatusShown } from '../../health/schema.ts'
import { unknown } from '../../health/status.ts'
import type { EdgeView } from '../../http/edges.ts'
import { route } from '../../http/route.ts'
import { Closed, Ref, type Static, Timestamp, TimestampOrNull } from '../../http/wire.ts'
import type { BackendId, BackendPrefix } from '../../kernel/edge/backends.ts'
import { type UpstreamStatus, upstreamStatuses } from '../../kernel/edge/edge_nodes.ts'
import { toId } from '../../kernel/ids.ts'
import { canonicalAddress } from '../../kernel/ip/address.ts'
import { existing, nameOf, type Resource } from '../../operations/resource.ts'
import { type HealthRow, healthKnownForMs, listHealth, listHealthOfAccount } from './health_store.ts'

const AddressHealth = Closed(
  {
    backend: Type.Unsafe<Static<typeof Ref>>({ ...Ref, description: 'The static backend that has this address.' }),
    node: Type.String({ description: 'The edge node that reports it.' }),
    address: Type.String({ description: 'Address and port as the node dials them, after resolving a host name.' }),
    status: Type.Unsafe<UpstreamStatus>({
      type: 'string',
      enum: [...upstreamStatuses],
      description:
        'up and down come from health checks. failing: requests or connections to it failed within the last five minutes.',
    }),
    reason: Type.Unsafe<string | null>({
      type: ['string', 'null'],
      description: 'Why the last check or request failed. Null when up.',
    }),
    since: Type.Unsafe<string>({ ...Timestamp, description: 'When it got this status.' }),
    last_failed_at: TimestampOrNull('When a request last failed, as of the last report. Null unless failing.'),
    reported_at: Timestamp,
  },
  { title: 'BackendAddressHealth' },
)
const Server = Closed(
  {
    backend: Type.Unsafe<Static<typeof Ref>>({ ...Ref, description: 'The static backend that has this server.' }),
    address: Type.String({ description: 'Address and port as nodes dial them, after resolving a host name.' }),
    status: StatusShown,
  },
  { title: 'BackendServer' },
)
const Servers = Type.Array(Server, {
  description: 'The same by server: how each is, as all live edge nodes see it. Nodes that are not live do not count.',
})
const BackendHealth = Closed(
  {
    backend: Ref,
    servers: Servers,
    addresses: Type.Array(AddressHealth, {
      description:
        'What edge nodes reported within the last 15 minutes, by backend, node and address. Without a health check an address is listed only while it is failing.',
    }),
  },
  { title: 'BackendHealth' },
)

function toAddressHealth(row: HealthRow, uri: (path: string) => string): Static<typeof AddressHealth> {
  const id = toId('bkdst', row.backend_id)
  const address = canonicalAddress(row.address)
  return {
    backend: { id, uri: uri(`/backends/static/${id}`) },
    node: row.node,
    address: `${address.includes(':') ? `[${address}]` : address}:${row.port}`,
    status: row.status,
    reason: row.reason,
    since: row.since,
    last_failed_at: row.last_failed_at,
    reported_at: row.reported_at,
  }
}

/** Groups by server. Ignores nodes that no longer report. */
function serversIn(
  rows: readonly HealthRow[],
  edges: EdgeView,
  uri: (path: string) => string,
): Static<typeof Server>[] {
  const live = new Set(edges.all().flatMap(({ node, live }) => (live ? [node] : [])))
  const shown = rows.map((row) => toAddressHealth(row, uri))
  return [...Map.groupBy(shown, ({ backend, address }) => `${backend.id} ${address}`).values()].flatMap((reports) => {
    const [first] = reports
    if (!first) return []
    const heard = reports.filter(({ node }) => live.has(node))
    const status = heard.length > 0 ? serverStatus(heard) : noLongerReported
    return [{ backend: first.backend, address: first.address, status }]
  })
}
const noLongerReported = unknown('no_live_node', 'No live edge node reports it.')

/** Route for the health of a backend's upstreams. */
export const healthRoute = <P extends BackendPrefix, Row, Shape extends TObject>(
  resource: Resource<{ id: P }, Row, Shape>,
  summary = `Get the health of ${nameOf(resource)}, as edge nodes see it`,
) =>
  route({
    operation: `${resource.name}.health`,
    summary,
    method: 'GET',
    path: `${resource.path}/:id/health`,
    params: resource.params,
    success: 200,
    response: BackendHealth,
    access: 'anyone',
    async handle(request) {
      const { db, caller, clock, uri, edges } = request
      await existing(resource, db, request, false)
      const id = request.params.id as BackendId
      const rows = await listHealth(db, caller, id, clock() - healthKnownForMs)
      return {
        body: {
          backend: { id, uri: uri(`${resource.path}/${id}`) },
          servers: serversIn(rows, edges, uri),
          addresses: rows.map((row) => toAddressHealth(row, uri)),
        },
      }
    },
  })

/** Further ones are only counted. */
const maxListed = 1_000

/** All down or failing upstreams of the account, in one read. */
export const accountHealthRoutes = [
  route({
    operation: 'backend_health.get',
    summary: 'Get the health of the backends of the account, as edge nodes see it',
    method: 'GET',
    path: '/backend_health',
    query: Closed({
      status: Type.Optional(
        Type.Unsafe<UpstreamStatus>({
          type: 'string',
          enum: [...upstreamStatuses],
          description: 'Return only addresses with this status.',
        }),
      ),
    }),
    success: 200,
    response: Closed(
      {
        servers: Servers,
        addresses: Type.Array(AddressHealth, {
          description: `What edge nodes reported within the last 15 minutes: down first, then failing, then up; the latest change first. At most ${maxListed}.`,
        }),
        total: Type.Integer({ description: 'Number of addresses, including those that are not listed.' }),
      },
      { title: 'AccountBackendHealth' },
    ),
    access: 'anyone',
    async handle({ db, caller, clock, uri, edges, query: { status } }) {
      const rows = await listHealthOfAccount(db, caller, clock() - healthKnownForMs, { status, limit: maxListed })
      const addresses = rows.map((row) => toAddressHealth(row, uri))
      return { body: { servers: serversIn(rows, edges, uri), addresses, total: rows[0]?.total ?? 0 } }
    },
  }),
]
