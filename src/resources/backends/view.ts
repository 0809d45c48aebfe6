import { type BackendKind, backendKinds } from '../../kernel/edge/backends.ts'
import { toId, type Uuid } from '../../kernel/ids.ts'
import { shownAnnotations } from '../../operations/annotations.ts'
import type { FailoverBackend, WeightedBackend, Weights } from './group_schema.ts'
import type { GroupRow } from './group_store.ts'
import type { ResponseBackend } from './response_schema.ts'
import type { ResponseRow } from './response_store.ts'
import type { Backend } from './schema.ts'
import type { StaticBackendRow } from './static_store.ts'
import type { BackendRow } from './store.ts'

type UriOf = (path: string) => string

export function backendRef<K extends BackendKind>(kind: K, uuid: Uuid, uri: UriOf) {
  const id = toId<(typeof backendKinds)[K]>(backendKinds[kind], uuid)
  return { id, uri: uri(`/backends/${kind}/${id}`) }
}

const common = <K extends BackendKind>(kind: K, row: BackendRow, uri: UriOf) => ({
  ...backendRef(kind, row.id, uri),
  created_at: row.created_at,
  ...shownAnnotations(row),
})

export const toBackend = (row: StaticBackendRow, uri: UriOf): Backend => ({
  ...common('static', row, uri),
  address: row.address,
  tls: { enabled: row.tls_enabled },
  protocol: row.protocol,
  send_proxy_protocol: row.send_proxy_protocol,
  health_check: row.health_check,
})

export const toWeightedBackend = (row: GroupRow, uri: UriOf): WeightedBackend => ({
  ...common('weighted', row, uri),
  backends: Object.fromEntries(row.members.map(({ id, weight }) => [toId('bkdst', id), weight])) as Weights,
})

export const toFailoverBackend = (row: GroupRow, uri: UriOf): FailoverBackend => ({
  ...common('failover', row, uri),
  backends: row.members.map(({ id, kind }) => toId(kind === 'static' ? 'bkdst' : 'bkdhr', id)),
})

export const toResponseBackend = (row: ResponseRow, uri: UriOf): ResponseBackend => ({
  ...common('http_response', row, uri),
  status_code: row.status_code,
  headers: row.headers,
  body: row.body,
})
