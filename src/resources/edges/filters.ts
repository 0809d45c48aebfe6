import { nothing, type SqlFragment, sql } from '../../db/sql.ts'
import type { BackendId } from '../../kernel/edge/backends.ts'
import { canonicalHostport } from '../../kernel/edge/hostport.ts'
import { type Id, toUuid, type Uuid } from '../../kernel/ids.ts'
import type { EdgeKind } from './module.ts'

export type EdgeFilters = { hostport?: string; match?: string; backend_id?: BackendId; ip_policy_id?: Id<'ipp'> }

/** Conditions on the table `e`. Each starts with a condition that has its own index. */
export const edgeFilters = (
  accountId: Uuid,
  kind: EdgeKind,
  { hostport, match, backend_id, ip_policy_id }: EdgeFilters,
): SqlFragment => sql`
  ${hostport === undefined ? nothing : sql`and e.id = (select h.edge_id from hostports h where h.hostport = ${canonicalHostport(hostport)} and h.account_id = ${accountId})`}
  ${match === undefined ? nothing : sql`and e.match = ${match}`}
  ${backend_id ? carrying(kind, sql`from edge_modules m where m.account_id = ${accountId} and m.backend_id = ${toUuid(backend_id)}`) : nothing}
  ${ip_policy_id ? carrying(kind, sql`from edge_module_policies m where m.account_id = ${accountId} and m.ip_policy_id = ${toUuid(ip_policy_id)}`) : nothing}`

/** HTTPS edges have no such modules; their routes do. */
const carrying = (kind: EdgeKind, modules: SqlFragment): SqlFragment =>
  kind === 'https'
    ? sql`and e.id in (
        select r.parent_id from edges r where r.account_id = e.account_id and r.id in (select m.edge_id ${modules}))`
    : sql`and e.id in (select m.edge_id ${modules})`
