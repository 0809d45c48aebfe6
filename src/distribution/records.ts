/**
 * What travels to edges. A record tells everything about one thing that an edge node must know, and names other things
 * by their keys instead of repeating them: a policy used by ten thousand edges is sent once. Nothing in here knows
 * HAProxy.
 */
export type RecordKind = 'tcp' | 'https' | 'route' | 'backend' | 'policy' | 'restrictions'
export type RecordKey = `${RecordKind}.${string}`

export type TcpRecord = {
  account: string
  hostports: string[]
  /** Null: none, or disabled. */
  backend: string | null
  /** Null: no restriction, or disabled. */
  policies: string[] | null
}
export type HttpsRecord = { hostports: string[] }
export type RouteRecord = {
  account: string
  edge: string
  match_type: 'exact_path' | 'path_prefix'
  match: string
  backend: string | null
  policies: string[] | null
  headers: { add: [name: string, value: string][]; remove: string[] } | null
  /** Missing: they are refused. Sent only when it says something else, so that nodes that do not know it go on. */
  encoded_slashes?: 'allow'
  /** Missing: they are accepted. */
  websocket?: false
}
/** Without a protocol: HTTP/1. */
export type BackendRecord = { host: string; port: number; tls: boolean; protocol?: 'http2' }
/** The compiled rules of an IP policy as one file, in pieces: small ones come along, large ones as blobs by their hash. */
export type PolicyRecord = {
  /** SHA-256 of the whole file, in hex. */
  hash: string
  bytes: number
  /** The file itself in base64, when it is small. */
  inline?: string
  /** Otherwise the hashes of its pieces, in order. */
  chunks?: string[]
}
export type RestrictionsRecord = { sets: { id: string; enforced: boolean; policies: string[] }[] }

export type RecordValues = {
  tcp: TcpRecord
  https: HttpsRecord
  route: RouteRecord
  backend: BackendRecord
  policy: PolicyRecord
  restrictions: RestrictionsRecord
}
export type RecordValue = RecordValues[RecordKind]

/** A record as of a generation. Null says that the thing is gone. */
export type EdgeRecord = { key: RecordKey; generation: number; value: RecordValue | null }

export const kindOf = (key: RecordKey): RecordKind => key.slice(0, key.indexOf('.')) as RecordKind
