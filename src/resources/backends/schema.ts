import { Type } from 'typebox'
import {
  Annotations,
  AnnotationsShown,
  BeforeId,
  Closed,
  Id,
  PageParameters,
  PathId,
  type Static,
  Timestamp,
  Uri,
} from '../../http/wire.ts'

const Address = Type.Unsafe<string>({
  type: 'string',
  'x-maxBytes': 300,
  'x-hostport': {},
  examples: ['app.internal:8080'],
  description: 'Address of the upstream as host:port. The host is a name or an IP address.',
})
const Enabled = Type.Boolean({
  description: 'Connect to the upstream with TLS and verify its certificate.',
})
const Tls = Closed({ enabled: Enabled })
/** Clients that leave out what is false send an empty object. */
const TlsSent = Closed({ enabled: Type.Optional(Enabled) })

const Protocol = Type.Unsafe<'http1' | 'http2'>({
  type: 'string',
  enum: ['http1', 'http2'],
  default: 'http1',
  description:
    'What the edge speaks to the upstream for HTTPS routes. gRPC needs http2: without TLS it is HTTP/2 with prior knowledge (h2c). TCP edges ignore it.',
})

const SendProxyProtocol = Type.Boolean({
  default: false,
  description:
    "Whether TCP edges begin each connection with a PROXY protocol header (version 2) that names the client's address. The upstream must expect it. HTTPS routes ignore it.",
})

export const BackendCreate = Closed({
  ...Annotations,
  address: Address,
  tls: Type.Optional(TlsSent),
  protocol: Type.Optional(Protocol),
  send_proxy_protocol: Type.Optional(SendProxyProtocol),
})
export const BackendUpdate = Closed({
  id: PathId('bkdst'),
  ...Annotations,
  address: Type.Optional(Address),
  tls: Type.Optional(TlsSent),
  protocol: Type.Optional(Protocol),
  send_proxy_protocol: Type.Optional(SendProxyProtocol),
})
export const Backend = Closed(
  {
    id: Id('bkdst'),
    uri: Uri,
    created_at: Timestamp,
    ...AnnotationsShown,
    address: Type.String(),
    tls: Tls,
    protocol: Protocol,
    send_proxy_protocol: SendProxyProtocol,
  },
  { title: 'StaticBackend' },
)
export type Backend = Static<typeof Backend>
export const BackendQuery = Closed({ ...PageParameters, before_id: BeforeId('bkdst') })
