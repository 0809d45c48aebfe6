import { type DbPool, many } from '../../db/pool.ts'
import { type SqlFragment, sql } from '../../db/sql.ts'
import type { RecordKind } from '../../distribution/records.ts'
import { firstUuidOf, type IdPrefix, toId, type Uuid } from '../../kernel/ids.ts'
import type { Changed } from './changed.ts'

const pageSize = 1_000

/** Where everything that has a record stands, by kind. */
const places: Record<RecordKind, { prefix: IdPrefix; from: SqlFragment }> = {
  tcp: { prefix: 'edgtcp', from: sql`edges where kind = 'tcp'` },
  https: { prefix: 'edghts', from: sql`edges where kind = 'https'` },
  route: { prefix: 'edghtsrt', from: sql`edges where kind = 'route'` },
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
    from: sql`(select ${firstUuidOf(0)}::uuid as account_id, id from edge_node_keys where accepted) recipients where true`,
  },
  challenge: { prefix: 'chl', from: sql`acme_challenges where true` },
  restrictions: {
    prefix: 'ac',
    // An account with an edge has this record even without restrictions: nodes refuse traffic of unknown accounts.
    from: sql`(
      select id as account_id, id from accounts a
      where exists (select from edges e where e.account_id = a.id and e.parent_id is null)
        or exists (select from ip_restrictions r where r.account_id = a.id and r.type = 'endpoints')) owners where true`,
  },
}

/** Everything of a kind that has a record, page by page. */
export async function* living(pool: DbPool, kind: RecordKind): AsyncGenerator<Changed[]> {
  const { prefix, from } = places[kind]
  const nil = '00000000-0000-0000-0000-000000000000' as Uuid
  let after = { account_id: nil, id: nil }
  for (;;) {
    const page = await many<{ account_id: Uuid; id: Uuid }>(
      pool,
      sql`select account_id, id from ${from} and (account_id, id) > (${after.account_id}, ${after.id}) order by account_id, id limit ${pageSize}`,
    )
    if (page.length)
      yield page.map(({ account_id, id }): Changed => ({ key: `${kind}.${toId(prefix, id)}`, accountId: account_id }))
    const last = page.at(-1)
    if (!last || page.length < pageSize) return
    after = last
  }
}
