import { type Db, type DbPool, many } from '../../db/pool.ts'
import { type SqlFragment, sql } from '../../db/sql.ts'
import type { RecordKey, RecordKind } from '../../distribution/records.ts'
import { firstUuidOf, type IdPrefix, toId, type Uuid } from '../../kernel/ids.ts'
import { type Cell, isPlaced, isServedIn } from '../../operations/placement.ts'
import type { Changed } from './changed.ts'

const pageSize = 1_000

type Place = {
  prefix: IdPrefix
  from: SqlFragment
  /** Selects the rows of the cell, if the account does not determine this. */
  inCell?: (cell: Cell) => SqlFragment
}
const edgeIn = (cell: Cell): SqlFragment => sql`${isPlaced(sql`account_id`, cell)} and ${isServedIn(sql`cells`, cell)}`

const asksForCertificates = sql`exists (
  select from edge_modules m
  where m.account_id = edges.account_id and m.edge_id = edges.id and m.module = 'mutual_tls' and m.enabled)`

const places: Record<RecordKind, Place> = {
  tcp: { prefix: 'edgtcp', from: sql`edges where kind = 'tcp'`, inCell: edgeIn },
  https: { prefix: 'edghts', from: sql`edges where kind = 'https' and not ${asksForCertificates}`, inCell: edgeIn },
  mutual_tls: { prefix: 'edghts', from: sql`edges where kind = 'https' and ${asksForCertificates}`, inCell: edgeIn },
  route: {
    prefix: 'edghtsrt',
    from: sql`edges where kind = 'route'`,
    inCell: (cell) => sql`
      ${isPlaced(sql`account_id`, cell)} and exists (
        select from edges p
        where p.account_id = edges.account_id and p.id = edges.parent_id and ${isServedIn(sql`p.cells`, cell)})`,
  },
  backend: { prefix: 'bkdst', from: sql`backends where kind = 'static'` },
  weighted: { prefix: 'bkdwd', from: sql`backends where kind = 'weighted'` },
  failover: { prefix: 'bkdfo', from: sql`backends where kind = 'failover'` },
  response: { prefix: 'bkdhr', from: sql`backends where kind = 'http_response'` },
  policy: { prefix: 'ipp', from: sql`ip_policies where true` },
  certificate: {
    prefix: 'cert',
    from: sql`(
      select distinct account_id, certificate_id as id from reserved_domains where certificate_id is not null) used where true`,
  },
  recipient: {
    prefix: 'enk',
    from: sql`(
      select ${firstUuidOf(0)}::uuid as account_id, id, cell_id from edge_node_keys where accepted) recipients where true`,
    inCell: (cell) => sql`cell_id = ${cell.id}`,
  },
  challenge: { prefix: 'chl', from: sql`acme_challenges where true` },
  cell_nodes: {
    prefix: 'ac',
    from: sql`(select account_id, account_id as id from accounts_with_cell_limits) limiting where true`,
  },
  restrictions: {
    prefix: 'ac',
    // An account with an edge has this record even without restrictions: nodes refuse traffic of unknown accounts.
    from: sql`(
      select id as account_id, id from accounts a
      where exists (select from edges e where e.account_id = a.id and e.parent_id is null)
        or exists (select from ip_restrictions r where r.account_id = a.id and r.type = 'endpoints')) owners where true`,
  },
}

export async function* living(pool: DbPool, cell: Cell, kind: RecordKind): AsyncGenerator<Changed[]> {
  const { prefix, from, inCell = (its) => isPlaced(sql`account_id`, its) } = places[kind]
  const nil = '00000000-0000-0000-0000-000000000000' as Uuid
  let after = { account_id: nil, id: nil }
  for (;;) {
    const page = await many<{ account_id: Uuid; id: Uuid }>(
      pool,
      sql`
      select account_id, id from ${from} and ${inCell(cell)} and (account_id, id) > (${after.account_id}, ${after.id})
      order by account_id, id limit ${pageSize}`,
    )
    if (page.length)
      yield page.map(({ account_id, id }): Changed => ({ key: `${kind}.${toId(prefix, id)}`, accountId: account_id }))
    const last = page.at(-1)
    if (!last || page.length < pageSize) return
    after = last
  }
}

/** Every record of an account in any cell, and those changed since a generation. */
export async function recordsOf(db: Db, accountId: Uuid, after: number): Promise<RecordKey[]> {
  const changed = await many<{ key: RecordKey }>(
    db,
    sql`select key from outbox where generation > ${after} and account_id = ${accountId} and key not like 'placement.%'`,
  )
  const keys = changed.map(({ key }) => key)
  for (const [kind, { prefix, from }] of Object.entries(places) as [RecordKind, Place][]) {
    if (kind === 'recipient') continue
    const rows = await many<{ id: Uuid }>(db, sql`select id from ${from} and account_id = ${accountId}`)
    keys.push(...rows.map(({ id }): RecordKey => `${kind}.${toId(prefix, id)}`))
  }
  return keys
}
