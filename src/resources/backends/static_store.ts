import { type Db, later } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import type { HealthCheck } from '../../kernel/edge/health_check.ts'
import { newUuid, toId, type Uuid } from '../../kernel/ids.ts'
import type { AnnotationColumns } from '../../operations/annotations.ts'
import { type Account, type BackendRow, rereadBackend } from './store.ts'

type StaticColumns = AnnotationColumns & {
  address: string
  tls_enabled: boolean
  protocol: 'http1' | 'http2'
  send_proxy_protocol: boolean
  health_check: HealthCheck | null
}
export type StaticBackendRow = BackendRow & StaticColumns

const stored = (check: HealthCheck | null): string | null => check && JSON.stringify(check)

export async function insertStaticBackend(tx: Db, account: Account, fields: StaticColumns): Promise<StaticBackendRow> {
  const id = newUuid()
  await later(
    tx,
    sql`
    insert into backends (account_id, id, kind, description, metadata, address, tls_enabled, protocol, send_proxy_protocol, health_check)
    values (${account.accountId}, ${id}, 'static', ${fields.description}, ${fields.metadata}, ${fields.address},
      ${fields.tls_enabled}, ${fields.protocol}, ${fields.send_proxy_protocol}, ${stored(fields.health_check)})`,
  )
  return rereadBackend(tx, account, toId('bkdst', id))
}

export async function updateStaticBackend(
  tx: Db,
  account: Account,
  id: Uuid,
  fields: StaticColumns,
): Promise<StaticBackendRow> {
  await later(
    tx,
    sql`
    update backends
    set description = ${fields.description}, metadata = ${fields.metadata}, address = ${fields.address},
      tls_enabled = ${fields.tls_enabled}, protocol = ${fields.protocol},
      send_proxy_protocol = ${fields.send_proxy_protocol}, health_check = ${stored(fields.health_check)}
    where account_id = ${account.accountId} and id = ${id}`,
  )
  return rereadBackend(tx, account, toId('bkdst', id))
}
