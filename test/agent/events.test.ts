// Server-sent events: an endless answer whose parts must not wait for one another.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import { connect as connectHttp2 } from 'node:http2'
import { request as requestHttps } from 'node:https'
import { test } from 'node:test'
import { holdsFor, poll } from '../harness/poll.ts'
import { putHttpsEdge, putRoute } from './http_harness.ts'
import { startEdge } from './proxy_harness.ts'

test('server-sent events arrive one by one, with pauses, over HTTP/1 and HTTP/2, and end when the client leaves', async (t) => {
  const edge = await startEdge(t, { certificates: ['app.example.com'] })
  const open = new Set<ServerResponse>()
  const server = createServer((_request, response) => {
    response.writeHead(200, { 'Content-Type': 'text/event-stream' }).flushHeaders()
    open.add(response)
    response.on('close', () => open.delete(response))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => {
    server.closeAllConnections()
    server.close()
  })
  await putRoute(edge, await putHttpsEdge(edge), { port: (server.address() as { port: number }).port })

  const received = { http1: '', http2: '' }
  const options = { port: edge.httpsPort, servername: 'app.example.com', rejectUnauthorized: false }
  const http1 = requestHttps({ ...options, host: '127.0.0.1', headers: { Host: 'app.example.com' } })
  http1.on('error', () => {})
  http1.on('response', (response) =>
    response
      .setEncoding('utf8')
      .on('error', () => {})
      .on('data', (text) => {
        received.http1 += text
      }),
  )
  http1.end()
  const session = connectHttp2(`https://127.0.0.1:${edge.httpsPort}`, options)
  session.on('error', () => {})
  t.after(() => session.destroy())
  const http2 = session.request({ ':path': '/', ':authority': 'app.example.com' })
  http2.setEncoding('utf8').on('data', (text) => {
    received.http2 += text
  })

  await poll(() => open.size === 2)
  let sent = ''
  for (let event = 0; event < 5; event++) {
    sent += `data: ${event}\n\n`
    for (const response of open) response.write(`data: ${event}\n\n`)
    // No further byte is sent until this one has arrived.
    await poll(() => received.http1 === sent && received.http2 === sent)
    await holdsFor(150, () => open.size === 2)
  }
  http1.destroy()
  http2.close()
  await poll(() => open.size === 0)
  assert.deepEqual(received, { http1: sent, http2: sent })
})
