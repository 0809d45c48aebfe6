import assert from 'node:assert/strict'
import { rename } from 'node:fs/promises'
import { after, test } from 'node:test'
import { poll } from '../harness/poll.ts'
import { id, openConnection, startEdge, startUpstream } from './proxy_harness.ts'

const edge = await startEdge({ after })
const account = id('ac')

/** Resolves to the id of a TCP edge with an upstream of its own. */
async function putEdge(t: Parameters<typeof startUpstream>[0], hostport: string) {
  const upstream = await startUpstream(t, 'hello')
  const [tcp, backend] = [id('edgtcp'), id('bkdst')]
  await edge.put({
    [`backend.${backend}`]: { address: '127.0.0.1', port: upstream.port, tls: false, host: 'upstream.test' },
    [`tcp.${tcp}`]: { account, hostports: [hostport], backend, policies: null },
  })
  return { tcp, upstream, remove: () => edge.put({ [`tcp.${tcp}`]: null }) }
}
const connect = (port: number, to = '127.0.0.1') => openConnection({ port, to }).resume()

test('connections of a deleted edge that could not be closed are closed later', async (t) => {
  const { tcp, upstream, remove } = await putEdge(t, `127.0.0.1:${edge.tcpPort}`)
  const socket = connect(edge.tcpPort)
  await poll(() => upstream.sockets.size === 1)
  await remove()
  const { masterSocket } = edge.settings
  await rename(masterSocket, `${masterSocket}.away`)
  await assert.rejects(edge.proxy.closeSessions([tcp]))
  await rename(`${masterSocket}.away`, masterSocket)
  assert.equal(socket.readyState, 'open')
  assert.equal(await edge.proxy.closeSessions([tcp]), 1)
  await poll(() => upstream.sockets.size === 0)
  assert.equal(await edge.proxy.closeSessions([tcp]), 0, 'then it is forgotten')
})

test("closing an edge on all addresses leaves another edge's connections on one of them alone", async (t) => {
  const port = edge.tcpPort + 1
  const everywhere = await putEdge(t, `db.example.com:${port}`)
  const narrow = await putEdge(t, `127.0.0.9:${port}`)
  const [ends, stays] = [connect(port), connect(port, '127.0.0.9')]
  await poll(() => everywhere.upstream.sockets.size === 1 && narrow.upstream.sockets.size === 1)
  assert.equal(await edge.proxy.closeSessions([everywhere.tcp]), 1)
  await poll(() => ends.readyState !== 'open' && everywhere.upstream.sockets.size === 0)
  assert.deepEqual([stays.readyState, narrow.upstream.sockets.size], ['open', 1])
  stays.destroy()
})

test('what reached a destination after it went to another edge is closed with the rest, once', async (t) => {
  const hostport = `127.0.0.1:${edge.tcpPort + 2}`
  const former = await putEdge(t, hostport)
  connect(edge.tcpPort + 2)
  await poll(() => former.upstream.sockets.size === 1)
  await former.remove()
  const next = await putEdge(t, hostport)
  connect(edge.tcpPort + 2)
  await poll(() => next.upstream.sockets.size === 1)
  assert.equal(await edge.proxy.closeSessions([former.tcp]), 2)
  await poll(() => former.upstream.sockets.size + next.upstream.sockets.size === 0)
  const again = connect(edge.tcpPort + 2)
  await poll(() => next.upstream.sockets.size === 1)
  assert.equal(await edge.proxy.closeSessions([former.tcp]), 0)
  assert.equal(again.readyState, 'open')
  again.destroy()
})
