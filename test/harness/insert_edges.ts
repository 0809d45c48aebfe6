import { many, run } from '../../src/db/pool.ts'
import { sql } from '../../src/db/sql.ts'
import { newUuid, toUuid, type Uuid } from '../../src/kernel/ids.ts'
import type { Installation } from './edge.ts'

/**
 * HTTPS edges, each with a route, straight into the tables: a hundred thousand through the API would take an hour.
 * Resolves to their ids. Nothing is written into the outbox.
 */
export async function insertEdges(
  { db, admin }: Pick<Installation, 'db' | 'admin'>,
  count: number,
  { backendId, policyId }: { backendId: string; policyId: string },
): Promise<{ edges: Uuid[]; routes: Uuid[] }> {
  const all: { edges: Uuid[]; routes: Uuid[] } = { edges: [], routes: [] }
  const account = toUuid(admin.accountId as `ac_${string}`)
  const backend = toUuid(backendId as `bkdst_${string}`)
  const policy = toUuid(policyId as `ipp_${string}`)
  for (let start = 0; start < count; start += 5_000) {
    const size = Math.min(5_000, count - start)
    const [edges, routes] = [
      Array.from({ length: size }, () => newUuid()),
      Array.from({ length: size }, () => newUuid()),
    ]
    all.edges.push(...edges)
    all.routes.push(...routes)
    await run(
      db,
      sql`insert into edges (account_id, id, kind) select ${account}, id, 'https' from unnest(${edges}::uuid[]) id`,
    )
    await run(
      db,
      sql`insert into hostports (hostport, account_id, edge_id, position)
      select 'h' || id || '.example:443', ${account}, id, 0 from unnest(${edges}::uuid[]) id`,
    )
    await run(
      db,
      sql`insert into edges (account_id, id, kind, parent_id, match_type, match)
      select ${account}, id, 'route', parent, 'path_prefix', '/' from unnest(${routes}::uuid[], ${edges}::uuid[]) r (id, parent)`,
    )
    await run(
      db,
      sql`insert into edge_modules (account_id, edge_id, module, enabled, settings, backend_id)
      select ${account}, id, 'backend', true, '{}', ${backend} from unnest(${routes}::uuid[]) id`,
    )
    await run(
      db,
      sql`insert into edge_modules (account_id, edge_id, module, enabled, settings)
      select ${account}, id, 'ip_restriction', true, '{}' from unnest(${routes}::uuid[]) id`,
    )
    await run(
      db,
      sql`insert into edge_module_policies (account_id, edge_id, module, ip_policy_id, position)
      select ${account}, id, 'ip_restriction', ${policy}, 0 from unnest(${routes}::uuid[]) id`,
    )
  }
  await many(db, sql`analyze edges`)
  return all
}
