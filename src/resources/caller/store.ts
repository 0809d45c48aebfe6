import { type Db, one } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import type { Caller } from '../../identity/caller.ts'
import type { Quotas } from '../../kernel/quotas.ts'
import { countTcpPorts } from '../edges/hostports.ts'

type Account = { name: string; used: Partial<Quotas> | null; own_quotas: Partial<Quotas> | null; tcp_ports: number }

/** The caller's account, with its stored amounts and its own quotas. */
export const findAccountOf = (db: Db, { accountId }: Caller): Promise<Account> =>
  one<Account>(
    db,
    sql`
    select name, ${countTcpPorts(sql`a.id`)} as tcp_ports,
      (select json_object_agg(kind, quota) from account_quotas q where q.account_id = a.id) as own_quotas,
      (select json_object_agg(kind, used) from (
        select kind, sum(used) as used from account_usage u where u.account_id = a.id group by kind) usage) as used
    from accounts a where id = ${accountId}`,
  )
