import { type Db, many } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import type {
  BackendRecord,
  FailoverRecord,
  RecordKind,
  ResponseRecord,
  WeightedRecord,
} from '../../distribution/records.ts'
import type { BackendKind } from '../../kernel/edge/backends.ts'
import { inOrder } from '../../kernel/edge/headers.ts'
import type { HealthCheck } from '../../kernel/edge/health_check.ts'
import { parseHostport } from '../../kernel/edge/hostport.ts'
import { toId, type Uuid } from '../../kernel/ids.ts'
import { type Changed, type Compiler, wanted } from './changed.ts'

type BackendColumns = {
  id: Uuid
  address: string
  tls_enabled: boolean
  protocol: 'http1' | 'http2'
  send_proxy_protocol: boolean
  health_check: HealthCheck | null
}
type Member = { id: Uuid; kind: BackendKind; weight: number }
type GroupColumns = { id: Uuid; account_id: Uuid; members: Member[] }
type ResponseColumns = { id: Uuid; status_code: number; headers: Record<string, string>; body: string }

const recordedCheck = ({ path, ...check }: HealthCheck): NonNullable<BackendRecord['health_check']> => ({
  ...check,
  ...(path !== null && { path }),
})

function backendRecord({ id, address, tls_enabled, protocol, send_proxy_protocol, health_check }: BackendColumns) {
  const parsed = parseHostport(address)
  if (typeof parsed === 'string') throw new Error(`backend ${id} has an address that ${parsed}: ${address}`)
  return {
    ...parsed,
    tls: tls_enabled,
    ...(protocol === 'http2' && { protocol }),
    ...(send_proxy_protocol && { send_proxy_protocol }),
    ...(health_check && { health_check: recordedCheck(health_check) }),
  } satisfies BackendRecord
}

const groupRows = (db: Db, kind: 'weighted' | 'failover', changed: readonly Changed[]) =>
  many<GroupColumns>(
    db,
    sql`
    select b.id, b.account_id, (
      select json_agg(json_build_object('id', m.member_id, 'kind', m.member_kind, 'weight', m.weight) order by m.position)
      from backend_members m where m.account_id = b.account_id and m.group_id = b.id) as members
    from ${wanted(changed)}
      join backends b on b.account_id = wanted.account_id and b.id = wanted.id and b.kind = ${kind}`,
  )

/** A group only names its members. Their addresses and checks are in their own records. */
export const backendCompilers: Record<RecordKind & ('backend' | 'weighted' | 'failover' | 'response'), Compiler> = {
  async backend(db, changed) {
    const rows = await many<BackendColumns>(
      db,
      sql`
      select b.id, b.address, b.tls_enabled, b.protocol, b.send_proxy_protocol, b.health_check
      from ${wanted(changed)}
        join backends b on b.account_id = wanted.account_id and b.id = wanted.id and b.kind = 'static'`,
    )
    return new Map(rows.map((row) => [row.id, { value: backendRecord(row) }]))
  },

  async weighted(db, changed) {
    const rows = await groupRows(db, 'weighted', changed)
    return new Map(
      rows.map(({ id, account_id, members }) => {
        const value: WeightedRecord = {
          account: toId('ac', account_id),
          backends: members.map((member) => [toId('bkdst', member.id), member.weight]),
        }
        return [id, { value }]
      }),
    )
  },

  async failover(db, changed) {
    const rows = await groupRows(db, 'failover', changed)
    return new Map(
      rows.map(({ id, account_id, members }) => {
        const response = members.find(({ kind }) => kind === 'http_response')
        const value: FailoverRecord = {
          account: toId('ac', account_id),
          backends: members.filter((member) => member !== response).map((member) => toId('bkdst', member.id)),
          ...(response && { response: toId('bkdhr', response.id) }),
        }
        return [id, { value }]
      }),
    )
  },

  async response(db, changed) {
    const rows = await many<ResponseColumns>(
      db,
      sql`
      select b.id, b.status_code, b.headers, b.body
      from ${wanted(changed)}
        join backends b on b.account_id = wanted.account_id and b.id = wanted.id and b.kind = 'http_response'`,
    )
    return new Map(
      rows.map(({ id, status_code, headers, body }) => {
        const value: ResponseRecord = { status: status_code, headers: inOrder(headers), body }
        return [id, { value }]
      }),
    )
  },
}
