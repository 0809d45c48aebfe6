import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { ask } from '../../src/agent/haproxy/process/runtime.ts'
import { policyFolder } from '../../src/agent/haproxy/settings.ts'
import { poll } from '../harness/poll.ts'
import { sized } from '../harness/thorough.ts'
import { createClient } from './fast_path/clients.ts'
import { get, putHttpsEdge, putRoute, startHttpUpstream } from './http_harness.ts'
import { type Edge, id, startEdge } from './proxy_harness.ts'

const certificates = ['*.example.com']

async function worker({ settings }: Edge) {
  const pid = /^Pid: (\d+)$/m.exec(await ask(settings.runtimeSocket, 'show info'))?.[1]
  return {
    megabytes: async () => Number(/VmRSS:\s+(\d+)/.exec(await readFile(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024,
    /** What it has read from files, sockets and all, in bytes. */
    read: async () => Number(/rchar: (\d+)/.exec(await readFile(`/proc/${pid}/io`, 'utf8'))?.[1]),
  }
}

/** A policy whose ranges, one for every 256 addresses, allow everything. Resolves to its id. */
async function largePolicy(edge: Edge, ranges: number, seed: number): Promise<string> {
  const bytes = Buffer.alloc(12 + 5 * ranges, 1)
  bytes.write('GHP1')
  bytes.writeUInt32BE(ranges, 4)
  bytes.writeUInt32BE(0, 8)
  for (let index = 0; index < ranges; index++) bytes.writeUInt32BE(index * 256 + seed, 12 + 5 * index)
  const hash = createHash('sha256').update(bytes).digest('hex')
  await mkdir(policyFolder(edge.settings), { recursive: true })
  await writeFile(join(policyFolder(edge.settings), hash), bytes)
  const policy = id('ipp')
  await edge.put({ [`policy.${policy}`]: hash })
  return policy
}

test('header names that clients make up do not fill the memory of HAProxy', async (t) => {
  const edge = await startEdge(t, { certificates, more: { threads: 1 } })
  const upstream = await startHttpUpstream(t)
  const https = await putHttpsEdge(edge)
  const routes = 1 + sized(24, 120)
  for (let index = 0; index < routes; index++)
    await putRoute(edge, https, upstream, {
      match: `/r${index}`,
      headers: { add: [['X-Added', `${index}`]], remove: [] },
    })
  const client = createClient(edge.httpsPort)
  t.after(() => client.close())
  const request = { version: 'HTTP/1.1', servername: 'app.example.com', host: 'app.example.com', body: '' } as const
  // An underscore, so that Lua looks for names in disguise.
  const send = async (route: number) => {
    const headers = Array.from({ length: 60 }, (): [string, string] => [`x_${randomBytes(114).toString('hex')}`, '1'])
    const answer = await client.send({ ...request, from: '127.0.0.1', method: 'GET', target: `/r${route}`, headers })
    assert.match(answer, /^HTTP\/1.1 200/)
  }
  const { megabytes } = await worker(edge)
  for (let index = 0; index < 64; index++) await send(0)
  const before = await megabytes()
  for (let route = 1; route < routes; route++) for (let index = 0; index < 64; index++) await send(route)
  const grown = (await megabytes()) - before
  assert.ok(grown < 12, `${grown} MiB more after ${routes * 64} lists of header names`)
})

test('large policies beyond what a thread keeps are searched on the disk, and are not read for each request', async (t) => {
  const cache = 4 << 20
  const edge = await startEdge(t, { certificates, more: { threads: 1, policyCacheBytes: cache } })
  const upstream = await startHttpUpstream(t)
  const https = await putHttpsEdge(edge)
  // 1 MiB each, and all of them are asked about each new address.
  const policies: string[] = []
  for (let index = 0; index < 12; index++) policies.push(await largePolicy(edge, 210_000, index))
  const { read } = await worker(edge)
  await putRoute(edge, https, upstream, { policies: [...policies, await edge.policy('deny 127.0.2.3')] })
  const before = await read()
  const requests = sized(20, 200)
  const spare = 200_000
  for (let index = 0; index < requests; index++) {
    const from = `127.0.2.${index + 4}`
    assert.equal((await get(edge, { from })).status, 200)
  }
  assert.equal((await get(edge, { from: '127.0.2.3' })).status, 403)
  const each = ((await read()) - before) / requests
  assert.ok(each < cache / requests + spare, `${each} bytes read for each request`)
})

test('a request for which Lua has no memory left is refused, and others pass', async (t) => {
  const edge = await startEdge(t, { certificates, more: { threads: 1, luaMegabytes: 20, policyCacheBytes: 1 << 30 } })
  const upstream = await startHttpUpstream(t)
  const https = await putHttpsEdge(edge)
  const small = await edge.policy('allow 127.0.0.1')
  // 25 MB, which would be read as a whole.
  const large = await largePolicy(edge, 5_000_000, 0)
  await putRoute(edge, https, upstream, { match: '/' })
  await putRoute(edge, https, upstream, { match: '/small', policies: [small] })
  await putRoute(edge, https, upstream, { match: '/large', policies: [large] })
  const ask = async (path: string) => (await get(edge, { path })).status
  assert.deepEqual([await ask('/'), await ask('/small')], [200, 200])
  for (let index = 0; index < 3; index++) assert.equal(await ask('/large'), 403)
  assert.equal(await ask('/LARGE'), 403, 'under its other spelling too')
  assert.deepEqual([await ask('/'), await ask('/small'), await ask('/SMALL')], [200, 200, 200])
  await poll(() => edge.luaFaults.filter((fault) => /memory/.test(fault)).length >= 4)
  const failed = await poll(
    () => edge.lines.filter(({ request }) => request.reason === 'internal'),
    ({ length }) => length >= 4,
  )
  assert.deepEqual(
    new Set(failed.map(({ request }) => `${request.outcome} ${request.status}`)),
    new Set(['failed 403']),
  )
})
