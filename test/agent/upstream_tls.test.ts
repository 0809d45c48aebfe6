import assert from 'node:assert/strict'
import { createServer as createHttpsServer } from 'node:https'
import { test } from 'node:test'
import { createServer as createTlsServer } from 'node:tls'
import { authority } from './authority.ts'
import { get, putHttpsEdge } from './http_harness.ts'
import { firstBytes, id, startEdge } from './proxy_harness.ts'

test("an upstream's certificate must match the backend's name and come from a CA that the operator trusts", async (t) => {
  const trusted = await authority(t)
  const stranger = await authority(t)
  const edge = await startEdge(t, { caFile: trusted.caFile, certificates: ['app.example.com'] })
  const https = await putHttpsEdge(edge)
  const names: (string | false | null)[] = []
  const listen = async (server: ReturnType<typeof createTlsServer>) => {
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    t.after(() => server.close())
    return (server.address() as { port: number }).port
  }
  const ca = { right: await trusted.issue('inner.test'), foreign: await stranger.issue('inner.test') }
  const ports: Record<string, number> = {}
  for (const [name, pair] of Object.entries(ca)) {
    const server = createHttpsServer(pair, (request, response) => {
      names.push((request.socket as unknown as { servername: string }).servername)
      response.end('hello')
    })
    t.after(() => server.closeAllConnections())
    ports[name] = await listen(server)
  }
  const greeter = createTlsServer(ca.right, (socket) => {
    socket.on('error', () => {})
    socket.end('hello')
  })
  ports.tcp = await listen(greeter)

  const backend = (port: number | undefined, host: string) => ({ address: '127.0.0.1', port, tls: true, host })
  const status = async (port: number | undefined, host: string) => {
    const [route, bkdst] = [id('edghtsrt'), id('bkdst')]
    const match = `/${route}`
    await edge.put({
      [`backend.${bkdst}`]: backend(port, host),
      [`route.${route}`]: {
        account: id('ac'),
        edge: https,
        match_type: 'path_prefix',
        match,
        backend: bkdst,
        policies: null,
        headers: null,
      },
    })
    return (await get(edge, { path: match })).status
  }
  assert.equal(await status(ports.right, 'inner.test'), 200)
  assert.equal(await status(ports.right, 'INNER.test'), 200)
  assert.equal(await status(ports.right, 'other.test'), 503)
  assert.equal(await status(ports.right, 'inner.test.evil.test'), 503)
  assert.equal(await status(ports.foreign, 'inner.test'), 503)
  assert.equal(await status(ports.right, 'inner.test'), 200, 'with a connection at hand')
  assert.deepEqual(new Set(names), new Set(['inner.test']), 'the name is asked for')

  const [tcp, right, wrong] = [id('edgtcp'), id('bkdst'), id('bkdst')]
  const record = {
    account: id('ac'),
    hostports: [`127.0.0.1:${edge.tcpPort}`],
    policies: null,
  }
  await edge.put({
    [`backend.${right}`]: backend(ports.tcp, 'inner.test'),
    [`backend.${wrong}`]: backend(ports.tcp, 'other.test'),
    [`tcp.${tcp}`]: { ...record, backend: right },
  })
  assert.equal(await firstBytes({ port: edge.tcpPort }), 'hello')
  await edge.put({ [`tcp.${tcp}`]: { ...record, backend: wrong } })
  assert.equal(await firstBytes({ port: edge.tcpPort }), '')
})
