// The rate_limit module of a TCP edge, through a real HAProxy.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ask } from '../../src/agent/haproxy/process/runtime.ts'
import { mapFile } from '../../src/agent/haproxy/settings.ts'
import type { ConnectionLimit } from '../../src/kernel/edge/rate_limit.ts'
import { poll } from '../harness/poll.ts'
import { withinAnHour } from './hours.ts'
import { type Edge, firstBytes, id, openConnection, startEdge, startUpstream } from './proxy_harness.ts'

const limit = (connections: number, more: Partial<ConnectionLimit> = {}): { rate_limit: ConnectionLimit } => ({
  rate_limit: { connections, per_seconds: 3_600, key: 'source', mode: 'enforce', ...more },
})

async function putEdge(edge: Edge, upstream: { port: number }, port: number, more: object): Promise<string> {
  const [tcp, backend] = [id('edgtcp'), id('bkdst')]
  const hostports = [`127.0.0.1:${port}`, `[::1]:${port}`]
  await edge.put({
    [`backend.${backend}`]: { address: '127.0.0.1', port: upstream.port, tls: false, host: 'upstream.test' },
    [`tcp.${tcp}`]: { account: id('ac'), hostports, backend, policies: null, ...more },
  })
  return tcp
}

async function admitted(port: number, times: number, from = '127.0.0.1'): Promise<number> {
  let count = 0
  for (let time = 0; time < times; time++) if ((await firstBytes({ port, from })) === 'hello') count++
  return count
}

test('each source, or a whole TCP edge, gets as many connections as the limit says, and refused ones use up nothing', (t) =>
  withinAnHour(async () => {
    const edge = await startEdge(t)
    const upstream = await startUpstream(t, 'hello')
    const [first, second, third, fourth] = [0, 1, 2, 3].map((at) => edge.tcpPort + at) as [
      number,
      number,
      number,
      number,
    ]
    const policies = [await edge.policy('allow 127.0.0.1', 'allow ::1')]
    const tcp = await putEdge(edge, upstream, first, limit(3))
    await putEdge(edge, upstream, second, { ...limit(3, { key: 'edge', per_seconds: 60 }), policies })
    await putEdge(edge, upstream, third, {})
    await putEdge(edge, upstream, fourth, limit(1, { mode: 'warn' }))
    assert.deepEqual([await admitted(first, 5), await admitted(first, 5, '127.0.0.2')], [3, 3])
    assert.equal(await firstBytes({ port: first, to: '::1' }), 'hello', 'another source')
    assert.equal(await admitted(second, 5, '127.0.0.2'), 0, 'refused by the policy')
    // A window of a minute may end meanwhile.
    assert.ok((await admitted(second, 3)) === 3)
    assert.equal(await admitted(third, 9), 9)
    assert.equal(await admitted(fourth, 3), 3, 'a warning stops nothing')
    assert.equal(upstream.accepts, 3 + 3 + 1 + 3 + 9 + 3)
    await edge.restartAgent()
    assert.equal(await admitted(first, 2), 0, 'counted before the restart')

    const told = (of: (line: Edge['lines'][number]) => boolean, count: number) =>
      poll(
        () => edge.lines.filter(of).map(({ request }) => `${request.outcome} ${request.reason}`),
        (lines) => lines.length >= count,
      )
    const ofFirst = await told(({ request, isEnd }) => isEnd && request.edge === tcp, 13)
    assert.deepEqual(
      Object.entries(Object.groupBy(ofFirst, (line) => line)).map(([line, all]) => [line, all?.length]),
      [
        ['allowed null', 7],
        ['limited rate_limit', 6],
      ],
    )
    // While a connection is open, the line about its warning is there.
    const socket = openConnection({ port: fourth })
    t.after(() => socket.destroy())
    const warned = await told(({ request, isEnd }) => !isEnd && request.outcome === 'warned', 3)
    assert.deepEqual([...new Set(warned)], ['warned rate_limit'])
    assert.equal(edge.events.length, 5, 'no address was refused but by the policy')
  }))

test('a TCP edge whose limit cannot be read lets no one in', async (t) => {
  const edge = await startEdge(t)
  const upstream = await startUpstream(t, 'hello')
  const tcp = await putEdge(edge, upstream, edge.tcpPort, limit(100))
  assert.equal(await admitted(edge.tcpPort, 1), 1)
  const map = mapFile(edge.settings, 'rate_limit')
  await ask(edge.settings.runtimeSocket, `del map ${map} ${tcp}`)
  assert.equal(await admitted(edge.tcpPort, 1), 0)
  const line = await poll(() => edge.lines.find(({ request }) => request.outcome === 'failed')?.request)
  assert.equal(line?.reason, 'internal')
})
