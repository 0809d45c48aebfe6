import { type Db, later } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import { newUuid, toId, type Uuid } from '../../kernel/ids.ts'
import type { AnnotationColumns } from '../../operations/annotations.ts'
import { type Account, type BackendRow, noAddress, rereadBackend } from './store.ts'

export type ResponseColumns = { status_code: number; headers: Record<string, string>; body: string }
export type ResponseRow = BackendRow & ResponseColumns

export async function insertResponse(
  tx: Db,
  account: Account,
  fields: AnnotationColumns & ResponseColumns,
): Promise<ResponseRow> {
  const id = newUuid()
  await later(
    tx,
    sql`
    insert into backends (account_id, id, kind, description, metadata, address, tls_enabled, status_code, headers, body)
    values (${account.accountId}, ${id}, 'http_response', ${fields.description}, ${fields.metadata}, ${noAddress}, false,
      ${fields.status_code}, ${JSON.stringify(fields.headers)}, ${fields.body})`,
  )
  return rereadBackend(tx, account, toId('bkdhr', id))
}

export async function updateResponse(
  tx: Db,
  account: Account,
  id: Uuid,
  fields: AnnotationColumns & ResponseColumns,
): Promise<ResponseRow> {
  await later(
    tx,
    sql`
    update backends
    set description = ${fields.description}, metadata = ${fields.metadata}, status_code = ${fields.status_code},
      headers = ${JSON.stringify(fields.headers)}, body = ${fields.body}
    where account_id = ${account.accountId} and id = ${id}`,
  )
  return rereadBackend(tx, account, toId('bkdhr', id))
}
