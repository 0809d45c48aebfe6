import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { loadScaledTimeout } from '../harness/load_scaled_timeout.ts'
import { poll } from '../harness/poll.ts'
import { putHttpsEdge, putRoute, startHttpUpstream } from './http_harness.ts'
import { type Edge, startEdge } from './proxy_harness.ts'

const requests = 2_000

/** How many requests had which status, by h2load's own log: four connections with twenty streams each. */
async function load({ settings, httpsPort }: Edge, path: string): Promise<Record<string, number>> {
  const log = join(settings.folder, `h2load${path.replaceAll('/', '-')}.log`)
  const shape = [`--requests=${requests}`, '--clients=4', '--max-concurrent-streams=20']
  const { stdout } = await promisify(execFile)(
    'h2load',
    [...shape, `--log-file=${log}`, `--connect-to=127.0.0.1:${httpsPort}`, `https://app.example.com${path}`],
    { timeout: loadScaledTimeout(60_000) },
  )
  assert.match(stdout, /^Application protocol: h2$/m)
  const statuses: Record<string, number> = {}
  for (const line of (await readFile(log, 'utf8')).trim().split('\n')) {
    const [, status = ''] = line.split('\t')
    statuses[status] = (statuses[status] ?? 0) + 1
  }
  return statuses
}

test('h2load: many HTTP/2 streams at once are all allowed or all refused by the policy of their route', async (t) => {
  const edge = await startEdge(t, { certificates: ['app.example.com'] })
  const upstream = await startHttpUpstream(t)
  const https = await putHttpsEdge(edge)
  const headers = { add: [['x-more', '1']] as [string, string][], remove: ['user-agent'] }
  const policies = { allowed: [await edge.policy('allow 127.0.0.1')], refused: [await edge.policy('allow 192.0.2.1')] }
  await putRoute(edge, https, upstream, { match: '/allowed', policies: policies.allowed })
  await putRoute(edge, https, upstream, { match: '/headers', policies: policies.allowed, headers })
  await putRoute(edge, https, upstream, { match: '/refused', policies: policies.refused })
  await putRoute(edge, https, upstream, { match: '/refused-headers', policies: policies.refused, headers })

  assert.deepEqual(await load(edge, '/refused'), { 403: requests })
  assert.deepEqual(await load(edge, '/refused-headers'), { 403: requests })
  assert.equal(upstream.heads.length, 0)
  assert.deepEqual(await load(edge, '/allowed'), { 200: requests })
  assert.deepEqual(await load(edge, '/headers'), { 200: requests })
  assert.equal(upstream.heads.length, 2 * requests)
  await poll(() => edge.events.length > 0)
  assert.ok(edge.events.every(({ outcome }) => outcome === 'refused'))
})
