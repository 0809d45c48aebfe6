import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { ask } from '../../src/agent/haproxy/process/runtime.ts'
import { poll } from '../harness/poll.ts'
import { get, putHttpsEdge, putRoute, startHttpUpstream } from './http_harness.ts'
import { type Edge, startEdge } from './proxy_harness.ts'

/** Gives an entry a value that gatehouse.lua does not expect. Resolves to a function that gives it back its own. */
async function spoil({ settings, all }: Edge, map: string, key: string, value: string): Promise<() => Promise<string>> {
  const set = (to: string) =>
    ask(settings.runtimeSocket, `set map ${join(settings.folder, `maps/${map}.map`)} ${key} ${to}`)
  const before = all().find((entry) => entry.map === map && entry.key === key)?.value ?? assert.fail(`${map} ${key}`)
  await set(value)
  return () => set(before)
}

/** What the node has noted, once it has: faults of Lua, and of the last request the outcome. */
async function noted({ luaFaults, lines }: Edge, requests: number) {
  await poll(() => lines.length === requests)
  const { outcome, reason } = lines.at(-1)?.request ?? assert.fail()
  return [luaFaults.length, outcome, reason]
}

test('an error in Lua refuses the request that met it, is noted, and is not taken for a policy that refuses', async (t) => {
  const edge = await startEdge(t, { certificates: ['*.example.com'] })
  const upstream = await startHttpUpstream(t)
  const https = await putHttpsEdge(edge)
  await putRoute(edge, https, upstream, { match: '/' })
  await putRoute(edge, https, upstream, { match: '/secret', policies: [await edge.policy('allow 127.0.0.1')] })
  const statusOf = async (path: string, from = '127.0.0.1') => (await get(edge, { path, from })).status
  assert.deepEqual([await statusOf('/%53ecret'), await statusOf('/%53ecret', '127.0.0.2')], [200, 403])
  assert.deepEqual(await noted(edge, 2), [0, 'refused', 'policy'])

  const repair = await spoil(edge, 'guard', `${https}/secret/`, 'nothing-of-a-route')
  assert.equal(await statusOf('/%53ecret'), 403)
  assert.deepEqual(await noted(edge, 3), [1, 'failed', 'internal'])
  assert.match(edge.luaFaults[0] ?? '', /^Lua .*other_readings.*gatehouse\.lua:\d+/)
  assert.equal(await statusOf('/elsewhere'), 200)
  await repair()
  assert.equal(await statusOf('/%53ecret'), 200)
  assert.equal(edge.luaFaults.length, 1)
})
