import assert from 'node:assert/strict'
import { test } from 'node:test'
import { describeFailures, failed, startLoad } from '../harness/open_loop.ts'
import { pause } from '../harness/poll.ts'
import { putHttpsEdge, putRoute, startHttpUpstream } from './http_harness.ts'
import { startEdge } from './proxy_harness.ts'

test('a new agent with other settings reloads HAProxy, and no request on a kept connection is lost', async (t) => {
  const edge = await startEdge(t, { certificates: ['app.example.com'] })
  await putRoute(edge, await putHttpsEdge(edge), await startHttpUpstream(t))
  const hosts = ['app.example.com']
  const from = Array.from({ length: 60 }, (_, index) => `127.0.3.${index + 1}`)
  const load = startLoad(t, { httpsPort: edge.httpsPort, hosts, from, perSecond: 300, posts: 1, idleMs: 500 })
  for (let reload = 1; reload <= 3; reload++) {
    await pause(500)
    Object.assign(edge.settings, { maxconn: edge.settings.maxconn + 1 })
    await edge.restartAgent()
  }
  const observed = await load.stop()
  // Answers end their connections for a second before a reload. Only a starved machine leaves one unused for half of it.
  if (observed.idle) console.log(`${observed.idle} requests failed on idle connections`)
  assert.equal(failed(observed), 0, describeFailures(observed))
  // 450 are due within the pauses alone; a starved machine sends fewer.
  assert.ok(observed.answered > 100, `${observed.answered} answered`)
  assert.deepEqual(edge.troubles, [])
})
