// A client that ignores GOAWAY must not go on under what was in force when the node stopped taking changes.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { test } from 'node:test'
import { connect } from 'node:tls'
import { putHttpsEdge, putRoute } from '../agent/http_harness.ts'
import { startEdge } from '../agent/proxy_harness.ts'
import { poll } from '../harness/poll.ts'

const frame = (type: number, flags: number, stream: number, payload: Buffer): Buffer => {
  const head = Buffer.alloc(9)
  head.writeUIntBE(payload.length, 0, 3)
  head.writeUInt8(type, 3)
  head.writeUInt8(flags, 4)
  head.writeUInt32BE(stream, 5)
  return Buffer.concat([head, payload])
}
/** A whole GET: method and scheme from the static table, authority and path written out, no Huffman code. */
const get = (stream: number, authority: string, path: string): Buffer => {
  const literal = (index: number, text: string) => Buffer.concat([Buffer.from([index, text.length]), Buffer.from(text)])
  const fields = [Buffer.from([0x82, 0x87]), literal(0x01, authority), literal(0x04, path)]
  return frame(1, 0x05, stream, Buffer.concat(fields))
}

test('a request long after GOAWAY is refused, and what was open before it finishes', async (t) => {
  const edge = await startEdge(t, { certificates: ['app.example.com'] })
  const waiting: (() => void)[] = []
  const web = createServer((request, response) => {
    if (request.url === '/slow') waiting.push(() => response.end('finished'))
    else response.end('served')
  }).listen(0, '127.0.0.1')
  await once(web, 'listening')
  t.after(() => web.close())
  await putRoute(edge, await putHttpsEdge(edge), web.address() as { port: number })
  const socket = connect({
    host: '127.0.0.1',
    port: edge.httpsPort,
    servername: 'app.example.com',
    rejectUnauthorized: false,
    ALPNProtocols: ['h2'],
  })
  t.after(() => socket.destroy())
  let received = ''
  socket.on('error', () => {})
  socket.on('data', (bytes) => {
    received += bytes.toString('latin1')
  })
  await once(socket, 'secureConnect')
  socket.write(Buffer.concat([Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'), frame(4, 0, 0, Buffer.alloc(0))]))
  socket.write(get(1, 'app.example.com', '/slow'))
  await poll(() => waiting.length === 1)
  const drained = edge.proxy.drain({ delayMs: 0, deadlineMs: 30_000, hurry: new AbortController().signal })
  let stream = 3
  await poll(
    () => {
      socket.write(get(stream, 'app.example.com', '/'))
      stream += 2
      return received.includes('ERR_DRAINING')
    },
    Boolean,
    { everyMs: 200 },
  )
  assert.ok(received.includes('served'), 'what was on its way is served')
  waiting[0]?.()
  await poll(() => received.includes('finished'))
  socket.destroy()
  await drained
  assert.deepEqual(edge.troubles, [])
})
