// A real browser's WebSockets through an edge with policies: Chromium opens them over HTTP/2 (RFC 8441) by itself.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { type TestContext, test } from 'node:test'
import type { CDPSession, Page } from 'playwright-core'
import { WebSocketServer } from 'ws'
import { openBrowser, openPage } from '../dashboard/browser.ts'
import { poll } from '../harness/poll.ts'
import { putHttpsEdge, putRoute } from './http_harness.ts'
import { type Edge, startEdge } from './proxy_harness.ts'

const host = 'app.example.com'

/** A page under every path, and WebSockets that answer each message with their path. */
async function startSite(t: TestContext) {
  const handshakes: string[] = []
  const server = createServer((_request, response) => {
    response.setHeader('Content-Type', 'text/html').end('<!doctype html><title>A page</title>')
  })
  const sockets = new WebSocketServer({ server })
  sockets.on('connection', (socket, { url = '' }) => {
    handshakes.push(url)
    socket.on('error', () => {})
    socket.on('message', (data) => socket.send(`${data} from ${url}`))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => {
    for (const client of sockets.clients) client.terminate()
    server.close()
  })
  return { port: (server.address() as { port: number }).port, handshakes }
}

/** By the name and port of the edge, as behind DNS. */
async function visit(t: TestContext, { httpsPort }: Edge) {
  const browser = await openBrowser(t, [
    `--host-resolver-rules=MAP ${host}:443 127.0.0.1:${httpsPort}`,
    '--ignore-certificate-errors',
  ])
  const page = await openPage(browser)
  const answer = await page.goto(`https://${host}/`)
  return { page, status: answer?.status(), seen: await watchHandshakes(await page.context().newCDPSession(page)) }
}

/** The status of each handshake: 101 is HTTP/1.1, and 200 is what accepts an extended CONNECT of HTTP/2. */
async function watchHandshakes(session: CDPSession): Promise<number[]> {
  const statuses: number[] = []
  session.on('Network.webSocketHandshakeResponseReceived', ({ response }) => statuses.push(response.status))
  await session.send('Network.enable')
  return statuses
}

/** What comes back for a message, or 'refused' where the socket never opened. */
const tryWebSocket = (page: Page, path: string): Promise<string> =>
  page.evaluate(
    (url) =>
      new Promise<string>((resolve) => {
        const socket = new WebSocket(url)
        socket.onopen = () => socket.send('hello')
        socket.onmessage = ({ data }) => resolve(data)
        socket.onclose = () => resolve('refused')
      }),
    `wss://${host}${path}`,
  )

test('Chromium: a WebSocket over HTTP/2 is allowed and refused by the policies of its route', async (t) => {
  const edge = await startEdge(t, { certificates: [host] })
  const site = await startSite(t)
  const https = await putHttpsEdge(edge)
  const here = await edge.policy('allow 127.0.0.1')
  const elsewhere = await edge.policy('allow 192.0.2.1')
  await putRoute(edge, https, site)
  await putRoute(edge, https, site, { match: '/allowed', policies: [here] })
  await putRoute(edge, https, site, { match: '/refused', policies: [elsewhere] })

  const { page, status, seen } = await visit(t, edge)
  assert.equal(status, 200)
  const protocol = await page.evaluate(`performance.getEntriesByType('navigation')[0].nextHopProtocol`)
  assert.equal(protocol, 'h2')
  assert.equal(await tryWebSocket(page, '/allowed'), 'hello from /allowed')
  assert.equal(await tryWebSocket(page, '/refused'), 'refused')
  assert.deepEqual(site.handshakes, ['/allowed'])
  assert.deepEqual(seen, [200])
  await poll(() => edge.events.length > 0)
  assert.match(page.faults.join(), /^WebSocket connection to .*\/refused' failed: .* response code: 403$/)
  assert.deepEqual(
    edge.events.map(({ outcome, source }) => [outcome, source]),
    [['refused', '127.0.0.1']],
  )
})
