// `npm run drill -- large-policy <ranges> <edges> <changes>`: a rule changed in a policy of a million ranges: the time, and
// the bytes that a node receives. A thousand edges of one account share the policy.
import assert from 'node:assert/strict'
import { run } from '../../src/db/pool.ts'
import { sql } from '../../src/db/sql.ts'
import { toUuid } from '../../src/kernel/ids.ts'
import { dial, newGuardedEdge, startTcpUpstream, statusOf } from '../agent/live_harness.ts'
import { stop } from '../harness/control_plane.ts'
import { drill } from '../harness/drill.ts'
import { startInstallation } from '../harness/edge.ts'
import { insertEdges } from '../harness/insert_edges.ts'
import { poll } from '../harness/poll.ts'
import { quantiles } from '../harness/quantiles.ts'
import { startTcpProxy } from '../harness/tcp_proxy.ts'

const ranges = Number(process.argv[2] ?? 1_000_000)
const edges = Number(process.argv[3] ?? 1_000)
const changes = Number(process.argv[4] ?? 20)
const changing = '127.0.0.9'

await drill(async (scope) => {
  const installation = await startInstallation(scope, { GATEHOUSE_IP_POLICY_RULES_PER_ACCOUNT: '100000000' })
  const { admin, db, nats } = installation
  const wire = await startTcpProxy(scope, nats.url)
  const edge = await installation.startEdge({ env: { GATEHOUSE_NATS_URL: wire.url } })
  const upstream = await startTcpUpstream(scope)
  const { port, policyId, backend } = await newGuardedEdge(admin, edge.tcpPorts.first, upstream.port, 'allow 127.0.0.2')

  // Every second address, so that no two ranges become one.
  const account = toUuid(admin.accountId as `ac_${string}`)
  for (let start = 0; start < ranges; start += 50_000)
    await run(
      db,
      sql`insert into ip_policy_rules (account_id, id, ip_policy_id, cidr, action)
      select ${account}, gen_random_uuid(), ${toUuid(policyId as `ipp_${string}`)}, ('10.0.0.0'::inet + n * 2)::cidr, 'allow'
      from generate_series(${start}::bigint, ${Math.min(ranges, start + 50_000) - 1}::bigint) n`,
    )
  await insertEdges(installation, edges, { backendId: backend.id, policyId: `${policyId}` })
  // These were not written to the outbox: the next active publisher finds them missing from the bucket.
  const [first] = installation.processes
  if (first) await stop(first.child)
  const before = wire.sent()
  const began = Date.now()
  await installation.startProcess()
  const client = installation.clientFor(admin.token)
  await poll(
    () => statusOf(edge),
    ({ records }) => records >= edges * 2,
    { withinSeconds: 600 },
  )
  const change = async (rule: string | undefined) => {
    const answer = rule
      ? await client('DELETE', rule, undefined, { process: 1 })
      : await client(
          'POST',
          '/ip_policy_rules',
          { ip_policy_id: policyId, action: 'allow', cidr: changing },
          { process: 1 },
        )
    assert.ok(answer.status === 201 || answer.status === 204, answer.text)
    return { uri: rule ? undefined : answer.body.uri, generation: Number(answer.headers.get('service-generation')) }
  }
  const applied = (generation: number) =>
    poll(
      () => statusOf(edge),
      (status) => status.applied >= generation,
      { withinSeconds: 600 },
    )
  // Behind other changes that the reconcile found.
  await applied((await change((await change(undefined)).uri)).generation)
  console.log(
    `${ranges} ranges and ${edges} edges with a route each, all new: in force after ${((Date.now() - began) / 1_000).toFixed(1)} s, ${kilobytes(wire.sent() - before)} kB to the node`,
  )

  const latencies: number[] = []
  const sizes: number[] = []
  let rule: string | undefined
  for (let index = 0; index < changes; index++) {
    const sentBefore = wire.sent()
    const { uri, generation } = await change(rule)
    rule = uri
    const answered = performance.now()
    while ((await dial(port, changing)) !== (rule ? 'hello' : undefined))
      assert.ok(performance.now() - answered < 120_000, `change ${index} is not in force after two minutes`)
    latencies.push(performance.now() - answered)
    await applied(generation)
    // The bucket delivers it again a moment later.
    await new Promise((resolve) => setTimeout(resolve, 500))
    sizes.push(wire.sent() - sentBefore)
  }
  sizes.sort((a, b) => a - b)
  console.log(`one rule of it changed, ${changes} times: in force after ${quantiles(latencies)}`)
  console.log(
    `bytes to the node for one change: median ${kilobytes(sizes[sizes.length >> 1] ?? 0)} kB, most ${kilobytes(sizes.at(-1) ?? 0)} kB`,
  )
  return true
})

function kilobytes(bytes: number): string {
  return (bytes / 1_000).toFixed(1)
}
