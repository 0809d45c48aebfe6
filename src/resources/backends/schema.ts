import { type TProperties, type TSchema, Type } from 'typebox'
import { StatusShown } from '../../health/schema.ts'
import {
  Annotations,
  AnnotationsShown,
  BeforeId,
  Closed,
  Filter,
  Id,
  PageParameters,
  PathId,
  type Static,
  Timestamp,
  Uri,
} from '../../http/wire.ts'
import type { BackendPrefix } from '../../kernel/edge/backends.ts'
import {
  checkPathPattern,
  defaultCheckPath,
  type HealthCheck,
  type HealthCheckNumber,
  healthCheckLimits,
  healthCheckTypes,
  maxCheckPathBytes,
} from '../../kernel/edge/health_check.ts'

/** Fields common to all kinds of backends, in requests and responses. */
export const updateFields = <P extends BackendPrefix, F extends TProperties>(prefix: P, fields: F) =>
  Closed({ id: PathId(prefix), ...Annotations, ...fields })
export const shownFields = <P extends BackendPrefix, F extends TProperties>(prefix: P, title: string, fields: F) =>
  Closed(
    { id: Id(prefix), uri: Uri, created_at: Timestamp, ...AnnotationsShown, ...fields, status: StatusShown },
    { title },
  )
export const queryOf = <P extends BackendPrefix, F extends TProperties>(prefix: P, filters: F) =>
  Closed({ ...PageParameters, before_id: BeforeId(prefix), ...filters })

const Address = Type.Unsafe<string>({
  type: 'string',
  'x-maxBytes': 300,
  'x-hostport': {},
  examples: ['app.internal:8080'],
  description: 'Address of the upstream as host:port. The host is a name or an IP address.',
})
const Enabled = Type.Boolean({
  description: 'Connect to the upstream with TLS and verify its certificate.',
  'x-default': false,
})
const Tls = Closed({ enabled: Enabled })
/** Clients that omit false values send an empty object. */
const TlsSent = Type.Unsafe<{ enabled?: boolean }>({
  ...Closed({ enabled: Type.Optional(Enabled) }),
  'x-default': { enabled: false },
})

const Protocol = Type.Unsafe<'http1' | 'http2'>({
  type: 'string',
  enum: ['http1', 'http2'],
  'x-default': 'http1',
  description:
    'What the edge speaks to the upstream for HTTPS routes. gRPC needs http2: without TLS it is HTTP/2 with prior knowledge (h2c). TCP edges ignore it.',
})

const SendProxyProtocol = Type.Boolean({
  'x-default': false,
  description:
    "Whether TCP edges begin each connection with a PROXY protocol header (version 2) that names the client's address. The upstream must expect it. HTTPS routes ignore it.",
})

const CheckNumber = (name: HealthCheckNumber, description: string) =>
  Type.Integer({
    minimum: 1,
    maximum: healthCheckLimits[name].most,
    'x-default': healthCheckLimits[name].default,
    description,
  })
const checkFields = {
  type: Type.Unsafe<HealthCheck['type']>({
    type: 'string',
    enum: [...healthCheckTypes],
    description: 'tcp: a connection can be opened. http: a GET is answered with a status from 200 to 399.',
  }),
  path: Type.Unsafe<string | null>({
    type: ['string', 'null'],
    pattern: checkPathPattern,
    'x-maxBytes': maxCheckPathBytes,
    'x-must':
      "must be a path that begins with '/', with characters other than letters, digits and ._~!&()*+,=:@/?- percent-encoded",
    'x-default': defaultCheckPath,
    examples: ['/healthz'],
    description: `Path of the GET, for type http only. At most ${maxCheckPathBytes} bytes.`,
  }),
  interval_seconds: CheckNumber('interval_seconds', 'Time between two checks of an address by each edge node.'),
  healthy_after: CheckNumber('healthy_after', 'Successful checks in a row after which a server is used again.'),
  unhealthy_after: CheckNumber('unhealthy_after', 'Failed checks in a row after which a server is no longer used.'),
}
const checkNote = 'How edge nodes check the upstream. Null: not at all. PATCH replaces all of it.'
export type HealthCheckSent = Pick<HealthCheck, 'type'> & Partial<HealthCheck>
const HealthCheckSent = Type.Unsafe<HealthCheckSent | null>({
  ...Closed({
    type: checkFields.type,
    path: Type.Optional(checkFields.path),
    interval_seconds: Type.Optional(checkFields.interval_seconds),
    healthy_after: Type.Optional(checkFields.healthy_after),
    unhealthy_after: Type.Optional(checkFields.unhealthy_after),
  }),
  type: ['object', 'null'],
  description: checkNote,
})
const HealthCheckShown = Type.Unsafe<HealthCheck | null>({
  anyOf: [Closed(checkFields, { title: 'HealthCheck' }), { type: 'null' }],
  description: checkNote,
})

const optional = <S extends TSchema>(address: S) => ({
  address,
  tls: Type.Optional(TlsSent),
  protocol: Type.Optional(Protocol),
  send_proxy_protocol: Type.Optional(SendProxyProtocol),
  health_check: Type.Optional(HealthCheckSent),
})

export const BackendCreate = Closed({ ...Annotations, ...optional(Address) })
export const BackendUpdate = updateFields('bkdst', optional(Type.Optional(Address)))
export const Backend = shownFields('bkdst', 'StaticBackend', {
  address: Type.String(),
  tls: Tls,
  protocol: Protocol,
  send_proxy_protocol: SendProxyProtocol,
  health_check: HealthCheckShown,
})
export type Backend = Static<typeof Backend>
export const BackendQuery = queryOf('bkdst', {
  address: Filter(Address, 'Return only backends with this address.'),
})
