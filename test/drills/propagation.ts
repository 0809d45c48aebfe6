// `npm run drill -- propagation <changes> <edges and routes>`: the time from the API's answer until a node with 100,000
// edges and routes enforces a change. Changes open and shut an edge in turn.
import assert from 'node:assert/strict'
import { dial, newGuardedEdge, startTcpUpstream, statusOf } from '../agent/live_harness.ts'
import { stop } from '../harness/control_plane.ts'
import { drill } from '../harness/drill.ts'
import { startInstallation } from '../harness/edge.ts'
import { insertEdges } from '../harness/insert_edges.ts'
import { poll } from '../harness/poll.ts'
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
  // These were not written to the outbox: the next active publisher finds them missing from the bucket.
  const [first] = installation.processes
  if (first) await stop(first.child)
  await installation.startProcess()
  const client = installation.clientFor(admin.token)
  const began = Date.now()
  await poll(
    () => statusOf(edge),
    ({ records }) => records >= held,
    { withinSeconds: 1_800 },
  )
  console.log(`${held} edges and routes reconciled and in force after ${((Date.now() - began) / 1_000).toFixed(1)} s`)

  // Behind other changes that the reconcile found.
  const { headers } = await client('POST', '/ip_policies', {}, { process: 1 })
  const settled = Number(headers.get('service-generation'))
  await poll(
    () => statusOf(edge),
    ({ applied }) => applied >= settled,
    { withinSeconds: 600 },
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
