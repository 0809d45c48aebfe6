// `npm run drill -- hostile-upstreams <backends> <rounds> <requests a second>`: 1,000 backends of one account that never
// answer, under load: the p99 of another account. The other account's requests are measured in rounds, with and without the
// attack in turn: none may fail, and their p99 may at most double.
import assert from 'node:assert/strict'
import { usageMetrics } from '../../src/agent/haproxy/config/limits.ts'
import { startGroup } from '../backends/group.ts'
import { startAttack, startSilence } from '../backends/silent_attack.ts'
import type { Account, Scope } from '../harness/control_plane.ts'
import { drill } from '../harness/drill.ts'
import { freshHost, make, newHttpsEdge } from '../harness/fixtures.ts'
import { describeFailures, failed, type Observed, startLoad } from '../harness/open_loop.ts'
import { pause } from '../harness/poll.ts'
import { quantile, quantiles } from '../harness/quantiles.ts'

const backends = Number(process.argv[2] ?? 1_000)
const rounds = Number(process.argv[3] ?? 6)
const attackPerSecond = Number(process.argv[4] ?? 200)
const secondsPerRound = 10

await drill(async (scope) => {
  const { installation, edge, host } = await startGroup(scope, { servers: 2 })
  const attacker = await installation.newAccount()
  const began = performance.now()
  const hostile = await newSilentBackends(scope, attacker)
  console.log(`${backends} backends that never answer, made in ${((performance.now() - began) / 1_000).toFixed(0)} s`)
  const measure = async (): Promise<Observed> => {
    const load = startLoad(scope, { httpsPort: edge.httpsPort, hosts: [host], perSecond: 100, posts: 0.2 })
    await pause(secondsPerRound * 1_000)
    return load.stop()
  }
  const seen: Record<'quiet' | 'attacked', Observed[]> = { quiet: [], attacked: [] }
  await measure()
  for (let round = 0; round < rounds; round++) {
    seen.quiet.push(await measure())
    const attack = startAttack(scope, {
      ...{ httpsPort: edge.httpsPort, host: hostile, paths: backends },
      ...{ sessions: 100, perSecond: attackPerSecond },
    })
    await pause(3_000)
    seen.attacked.push(await measure())
    const usage = await usageMetrics({ runtimeSocket: `${edge.folder}/haproxy/runtime.sock` })
    const { sent, inFlight } = await attack.end()
    console.log(
      `round ${round + 1}: ${sent} hostile requests, ${inFlight} of them unanswered; ${JSON.stringify(usage)}`,
    )
  }
  const p99 = (all: Observed[]) => all.map(({ latencies }) => quantile(latencies, 0.99))
  for (const [name, all] of Object.entries(seen)) {
    const failures = all.filter((each) => failed(each) > 0).map(describeFailures)
    console.log(
      `${name}: ${quantiles(all.flatMap(({ latencies }) => latencies))}; p99 of each round ${p99(all)
        .map((ms) => ms.toFixed(1))
        .join(', ')} ms; failures: ${failures.join(', ') || 'none'}`,
    )
  }
  const ratio = quantile(p99(seen.attacked), 0.5) / quantile(p99(seen.quiet), 0.5)
  console.log(`the median p99 under attack is ${ratio.toFixed(2)} of the quiet one`)
  return ratio <= 2 && [...seen.quiet, ...seen.attacked].every((each) => failed(each) === 0)
})

/** Each at an address of its own, every other one with a check that it passes, the others with one that it does not. */
async function newSilentBackends(scope: Scope, as: Account): Promise<string> {
  const port = await startSilence(scope)
  const host = freshHost()
  const https = await newHttpsEdge(as, { hostports: [`${host}:443`] })
  for (let index = 0; index < backends; index++) {
    const backend = await make(as, '/backends/static', {
      address: `127.3.${index >> 8}.${index & 255}:${port}`,
      health_check: { type: index % 2 ? 'http' : 'tcp', interval_seconds: 1 + (index % 10) },
    })
    const wait = index === backends - 1 ? '?wait=applied' : ''
    const route = { match_type: 'exact_path', match: `/${index}`, backend: { backend_id: backend.id } }
    const made = await as('POST', `${https.uri}/routes${wait}`, route)
    assert.equal(made.status, 201, made.text)
  }
  return host
}
