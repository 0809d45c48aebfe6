// `npm run drill -- static-stability <minutes>`: API, PostgreSQL and NATS killed under traffic: no wrong decision, no failed
// connection. The same must hold when the agent is killed and after HAProxy restarts. Rules that expire meanwhile end at
// their moment.
import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { setTimeout } from 'node:timers/promises'
import { startPostgres } from '../../dev/postgres.ts'
import { ask as askHaproxy } from '../../src/agent/haproxy/process/runtime.ts'
import { exchange, startHttpUpstream } from '../agent/http_harness.ts'
import { dial, newGuardedEdge, startTcpUpstream, statusOf } from '../agent/live_harness.ts'
import { stop } from '../harness/control_plane.ts'
import { drill } from '../harness/drill.ts'
import { startInstallation } from '../harness/edge.ts'
import { createMigratedDatabase } from '../harness/environment.ts'
import { make, newHttpsEdge } from '../harness/fixtures.ts'
import { poll } from '../harness/poll.ts'

const minutes = Number(process.argv[2] ?? 10)
const [allowed, refused, guest, banned] = ['127.0.0.2', '127.0.0.3', '127.0.0.5', '127.0.0.6']

await drill(async (scope) => {
  // A separate server: the shared one must survive the run, and this one is killed.
  const postgres = await startPostgres({})
  scope.after(() => postgres.stop())
  const databaseUrl = await createMigratedDatabase(postgres, 'drill')
  const installation = await startInstallation(scope, {}, databaseUrl)
  const { admin, nats } = installation
  let edge = await installation.startEdge()
  const upstream = await startTcpUpstream(scope)
  const web = await startHttpUpstream(scope as unknown as TestContext, 'web')
  const part = (minutes * 60_000) / 4
  const expiry = Date.now() + 10_000 + part / 2
  const until = `expires=${new Date(expiry).toISOString()}`
  const rules = [`allow ${allowed}`, `allow ${guest} ${until}`, 'allow 127.0.0.6/31', `deny ${banned} ${until}`]
  const guarded = await newGuardedEdge(admin, edge.tcpPorts.first, upstream.port, ...rules)
  const https = await newHttpsEdge(admin, { hostports: ['web.example:443'] })
  const backend = await make(admin, '/backends/static', { address: `127.0.0.1:${web.port}` })
  const route = await admin('POST', `${https.uri}/routes?wait=applied`, {
    match_type: 'path_prefix',
    match: '/',
    backend: { backend_id: backend.id },
    ip_restriction: { ip_policy_ids: [guarded.policyId] },
  })
  assert.equal(route.headers.get('service-applied'), '1/1', route.text)

  const count = { asked: 0, wrong: 0, failed: 0, failedInGap: 0 }
  /** HAProxy is being started: connections may fail then, but no refused client may be let in. */
  let inGap = false
  let over = false
  async function ask(isAllowed: boolean, way: 'tcp' | 'https'): Promise<void> {
    const from = isAllowed ? allowed : refused
    const gapBefore = inGap
    const request = 'GET / HTTP/1.1\r\nHost: web.example\r\n\r\n'
    const answer =
      way === 'tcp'
        ? ((await dial(guarded.port, from)) ?? 'shut')
        : String((await exchange(edge, request, { from, servername: 'web.example' })).status)
    const isIn = answer === 'hello' || answer === '200'
    // A refused TCP client sees its connection closed, as it would without a listener.
    const isClean = isIn || answer === '403' || (way === 'tcp' && !isAllowed)
    count.asked++
    if (isIn && !isAllowed) count.wrong++
    else if (isAllowed ? !isIn : !isClean) {
      if (answer === '403') count.wrong++
      else if (gapBefore || inGap) count.failedInGap++
      else {
        count.failed++
        console.error(`${new Date().toISOString()} ${way} from ${from}: ${answer}`)
      }
    }
  }
  const clients = ([true, false] as const).flatMap((isAllowed) =>
    (['tcp', 'https'] as const).map(async (way) => {
      while (!over) {
        await ask(isAllowed, way)
        await setTimeout(20)
      }
    }),
  )
  const report = (what: string) => console.log(`${new Date().toISOString()} ${what}: ${JSON.stringify(count)}`)

  await setTimeout(2_000)
  report('everything up')
  for (const { child } of installation.processes) await stop(child, 'SIGKILL')
  await nats.stop('SIGKILL')
  await postgres.kill()
  report('API, NATS and PostgreSQL killed')
  const letsIn = async (from: string) => (await dial(guarded.port, from)) === 'hello'
  assert.deepEqual([await letsIn(guest), await letsIn(banned)], [true, false], 'before their rules expire')
  await setTimeout(Math.max(part, expiry - Date.now() + 1))
  await poll(async () => !(await letsIn(guest)) && (await letsIn(banned)))
  report(`nothing but the node; expired rules had ended ${Date.now() - expiry} ms after their moment at the latest`)

  await stop(edge.child, 'SIGKILL')
  await setTimeout(part)
  report('HAProxy without its agent')
  edge = await installation.startEdge({ like: edge })
  await setTimeout(part / 2)
  report('with an agent that started from disk')

  inGap = true
  await stop(edge.child)
  edge = await installation.startEdge({ like: edge })
  inGap = false
  await setTimeout(part / 2)
  report('agent and HAProxy started cold')
  inGap = true
  const killed = await haproxyPids(edge.folder)
  for (const pid of killed) process.kill(pid, 'SIGKILL')
  await poll(
    () => dial(guarded.port, allowed),
    (answer) => answer === 'hello',
  )
  inGap = false
  await setTimeout(part)
  report('HAProxy killed and brought back')

  await postgres.restart()
  await nats.restart({ empty: true })
  await installation.startProcess()
  const again = installation.clientFor(admin.token)
  const rule = { ip_policy_id: guarded.policyId, action: 'allow', cidr: '127.0.0.4' }
  const added = await again('POST', '/ip_policy_rules', rule, { process: installation.processes.length - 1 })
  assert.equal(added.status, 201, added.text)
  const generation = Number(added.headers.get('service-generation'))
  const changedAt = Date.now()
  await poll(
    () => statusOf(edge),
    ({ applied }) => applied >= generation,
  )
  assert.equal(await dial(guarded.port, '127.0.0.4'), 'hello')
  report(`all back, with an empty NATS, and a change in force after ${Date.now() - changedAt} ms`)
  over = true
  await Promise.all(clients)
  report(count.wrong + count.failed === 0 ? 'held' : 'DID NOT HOLD')
  return count.wrong + count.failed === 0
})

async function haproxyPids(folder: string): Promise<number[]> {
  const processes = await askHaproxy(`${folder}/haproxy/master.sock`, 'show proc')
  return [...processes.matchAll(/^(\d+)\s+(?:master|worker)\s/gm)].map(([, pid]) => Number(pid))
}
