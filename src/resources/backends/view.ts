import { toId } from '../../kernel/ids.ts'
import { shownAnnotations } from '../../operations/annotations.ts'
import type { Backend } from './schema.ts'
import type { BackendRow } from './store.ts'

export function toBackend(row: BackendRow, uri: (path: string) => string): Backend {
  const id = toId('bkdst', row.id)
  return {
    id,
    uri: uri(`/backends/static/${id}`),
    created_at: row.created_at,
    ...shownAnnotations(row),
    address: row.address,
    tls: { enabled: row.tls_enabled },
    protocol: row.protocol,
    send_proxy_protocol: row.send_proxy_protocol,
  }
}
