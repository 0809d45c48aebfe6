// `npm run drill -- good-changes <changes> <accounts>`: ordinary changes beside traffic, through a cell with two waves: how many are stopped wrongly, and how long a refused address takes to every node.
import { loadavg } from 'node:os'
import { run } from '../../src/db/pool.ts'
import { sql } from '../../src/db/sql.ts'
import type { StoredRollout } from '../../src/operations/rollouts.ts'
import { newTenantOf, type Owner } from '../fleet/bad_changes.ts'
import { type Seen, startApplications, startVisitors } from '../fleet/honest_traffic.ts'
import { startTwoWaves } from '../fleet/two_waves.ts'
import type { Answer } from '../harness/client.ts'
import { drill } from '../harness/drill.ts'
import { make } from '../harness/fixtures.ts'
import { pause, poll } from '../harness/poll.ts'
import { quantiles } from '../harness/quantiles.ts'
import { statusOf } from '../upgrade/installation.ts'

const changes = Number(process.argv[2] ?? 1_000)
const accounts = Number(process.argv[3] ?? 10)
const soakMs = 5_000
/** As many as an account has within ten minutes. */
const refusalsEach = 20

/** All leave the application as its clients know it. */
const kinds: readonly ((owner: Owner, n: number) => Promise<Answer>)[] = [
  ({ client, policy }, n) =>
    client('POST', '/ip_policy_rules', { ip_policy_id: policy.id, cidr: `10.0.${n % 256}.${n >> 8}`, action: 'allow' }),
  ({ client, policy }, n) =>
    client('POST', '/ip_policy_rules', { ip_policy_id: policy.id, cidr: `192.0.${n % 256}.0/24`, action: 'deny' }),
  ({ client, edge, backend }, n) =>
    client('POST', `${edge.uri}/routes`, {
      match_type: 'path_prefix',
      match: `/new-${n}`,
      backend: { backend_id: backend.id },
    }),
  ({ client, route }, n) => client('PUT', `${route.uri}/request_headers`, { add: { 'x-release': `${n}` } }),
  ({ client, route }, n) => client('PUT', `${route.uri}/response_headers`, { add: { 'x-release': `${n}` } }),
  ({ client, route }, n) => client('PATCH', route.uri, { timeouts: { response_seconds: 10 + (n % 20) } }),
  ({ client, edge, host }, n) => client('PATCH', edge.uri, { hostports: [`${host}:443`, `n${n}.${host}:443`] }),
  ({ client, route }, n) =>
    client('PUT', `${route.uri}/rate_limit`, { requests: 10_000 + n, per_seconds: 1, key: 'source' }),
  async ({ client, route, address }) => {
    const other = await make(client, '/backends/static', { address })
    return client('PATCH', route.uri, { backend: { backend_id: other.id } })
  },
  ({ client, backend, address }, n) => client('PATCH', backend.uri, { address, description: `moved ${n} times` }),
]

await drill(async (scope) => {
  const apps = await startApplications(scope)
  const waves = await startTwoWaves(scope, soakMs)
  const canary = await waves.startNode('canary', 0)
  const owners: Owner[] = []
  for (let n = 0; n < accounts; n++) owners.push(await newTenantOf(waves.fleet, `t${n}.example`, apps.sound))
  const nodes = [canary, await waves.startNode('later-1', 1)]
  for (const { host } of owners)
    for (const { httpsPort } of nodes)
      await poll(async () => (await statusOf(httpsPort, host)) === 200, undefined, { withinSeconds: 60 })
  const seen: Seen[] = []
  const stops = owners.map(({ host }) => startVisitors(nodes, { host }, seen))
  await pause(10_000)

  let made = 0
  let wrong = 0
  const rollouts = new Set<number>()
  const began = performance.now()
  while (made < changes) {
    await Promise.all(
      owners.map(async (owner) => {
        const n = made++
        const answer = await (kinds[(n + Math.floor(n / accounts)) % kinds.length] ?? Promise.reject)(owner, n)
        if (answer.status >= 300) throw new Error(answer.text)
        // Not in a rollout before its publisher has seen it.
        const generation = Number(answer.headers.get('service-generation'))
        const isIn = ({ open_until }: StoredRollout) => open_until >= generation
        const all = await poll(
          () => waves.rollouts(owner),
          (found) => found.some(isIn),
          { withinSeconds: 60 },
        )
        for (const { id } of all) rollouts.add(id)
      }),
    )
    for (const owner of owners) {
      const all = await poll(
        () => waves.open(owner),
        (open) => open.every(({ state }) => state === 'halted'),
        { withinSeconds: 120 },
      )
      for (const { id, reason } of all) {
        wrong++
        console.log(`stopped wrongly: ${reason}`)
        await waves.command('release', `${id}`)
        await waves.settled(owner)
      }
    }
  }
  const minutes = ((performance.now() - began) / 60_000).toFixed(1)
  console.log(
    `${made} good changes of ${kinds.length} kinds in ${rollouts.size} rollouts within ${minutes} minutes: ${wrong} stopped wrongly; load of the machine ${loadavg()[0]?.toFixed(1)}`,
  )
  for (const stop of stops) await stop()
  const failed = seen.filter(({ isGood }) => !isGood).length
  console.log(`${failed} of ${seen.length} requests failed meanwhile`)
  await run(waves.fleet.db, sql`update cells set soak_seconds = 300`)
  await printFastLane(owners, nodes)
  return wrong <= made / 1_000
})

async function printFastLane(owners: readonly Owner[], nodes: readonly { name: string; httpsPort: number }[]) {
  const took = new Map(nodes.map(({ name }) => [name, [] as number[]]))
  for (const [index, { client, host, policy }] of owners.entries())
    for (let n = 0; n < refusalsEach; n++) {
      const address = `127.0.${index + 1}.${n + 1}`
      const began = performance.now()
      const answer = await client('POST', '/ip_policy_rules', {
        ip_policy_id: policy.id,
        cidr: address,
        action: 'deny',
      })
      if (answer.status !== 201) throw new Error(answer.text)
      await Promise.all(
        nodes.map(async ({ name, httpsPort }) => {
          while ((await statusOf(httpsPort, host, address)) !== 403)
            if (performance.now() - began > 60_000) throw new Error(`${address} is let in on ${name} after a minute`)
          took.get(name)?.push(performance.now() - began)
        }),
      )
    }
  for (const [name, times] of took)
    console.log(`an address refused on ${name}, from the request on: ${quantiles(times)}`)
}
