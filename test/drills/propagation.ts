// `npm run drill:propagation -- <changes> <edges and routes>`: the time from the API's answer to a change until the edge
// enforces it, seen by connecting, on a node that holds many edges. Changes open and shut an edge in turn.
import assert from 'node:assert/strict'
import { many, run } from '../../src/db/pool.ts'
import { sql } from '../../src/db/sql.ts'
import { newUuid, toUuid } from '../../src/kernel/ids.ts'
import { dial, newGuardedEdge, startTcpUpstream, statusOf, until } from '../edge/live_harness.ts'
import { stop } from '../harness/control_plane.ts'
import { drill } from '../harness/drill.ts'
import { type Installation, startInstallation } from '../harness/edge.ts'
import { quantiles } from '../harness/quantiles.ts'

const changes = Number(process.argv[2] ?? 1_000)
const held = Number(process.argv[3] ?? 100_000)
const changing = '127.0.0.9'

await drill(async (scope) => {
  const installation = await startInstallation(scope)
  const edge = await installation.startEdge()
  const upstream = await startTcpUpstream(scope)
  const { admin } = installation
  const { port, policyId, backend } = await newGuardedEdge(admin, edge.tcpPorts.first, upstream.port, 'allow 127.0.0.2')

  await insertEdges(installation, held / 2, { backendId: backend.id, policyId: `${policyId}` })
  // Nobody wrote these into the outbox: whoever becomes active next finds that the bucket has them not.
  const [first] = installation.processes
  if (first) await stop(first.child)
  await installation.startProcess()
  const client = installation.clientFor(admin.token)
  const began = Date.now()
  await until(
    () => statusOf(edge),
    ({ records }) => records >= held,
    1_800,
  )
  console.log(`${held} edges and routes reconciled and in force after ${((Date.now() - began) / 1_000).toFixed(1)} s`)

  // Behind whatever else the reconcile found.
  const { headers } = await client('POST', '/ip_policies', {}, { process: 1 })
  const settled = Number(headers.get('service-generation'))
  await until(
    () => statusOf(edge),
    ({ applied }) => applied >= settled,
    600,
  )
  console.log(`and caught up after ${((Date.now() - began) / 1_000).toFixed(1)} s`)

  const latencies: number[] = []
  let ruleUri: string | undefined
  for (let index = 0; index < changes; index++) {
    const rule = { ip_policy_id: policyId, action: 'allow', cidr: changing }
    const answer = ruleUri
      ? await client('DELETE', ruleUri, undefined, { process: 1 })
      : await client('POST', '/ip_policy_rules', rule, { process: 1 })
    const answered = performance.now()
    assert.ok(answer.status === 201 || answer.status === 204, answer.text)
    const wanted = ruleUri ? undefined : 'hello'
    ruleUri = ruleUri ? undefined : answer.body.uri
    while ((await dial(port, changing)) !== wanted)
      assert.ok(performance.now() - answered < 60_000, `change ${index} is not in force after a minute`)
    latencies.push(performance.now() - answered)
  }
  console.log(`${changes} changes beside ${held} edges and routes: ${quantiles(latencies)}`)
  return true
})

/** HTTPS edges, each with a route, straight into the tables. */
async function insertEdges(
  { db, admin }: Installation,
  count: number,
  { backendId, policyId }: { backendId: string; policyId: string },
): Promise<void> {
  const account = toUuid(admin.accountId as `ac_${string}`)
  const backend = toUuid(backendId as `bkdst_${string}`)
  const policy = toUuid(policyId as `ipp_${string}`)
  for (let start = 0; start < count; start += 5_000) {
    const size = Math.min(5_000, count - start)
    const [edges, routes] = [
      Array.from({ length: size }, () => newUuid()),
      Array.from({ length: size }, () => newUuid()),
    ]
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
}
