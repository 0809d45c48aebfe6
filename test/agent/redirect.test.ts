import assert from 'node:assert/strict'
import { connect } from 'node:net'
import { type TestContext, test } from 'node:test'
import { freePorts } from '../../dev/ports.ts'
import { putHttpsEdge } from './http_harness.ts'
import { startEdge } from './proxy_harness.ts'

async function start(t: TestContext) {
  const [port = 0] = await freePorts(1)
  const edge = await startEdge(t, { more: { httpBind: [`127.0.0.1:${port}`] } })
  await putHttpsEdge(edge, ['app.example.com:443', '*.wild.example:443'])
  return { port }
}

async function send(port: number, bytes: string): Promise<{ status: number; head: string; body: string }> {
  const socket = connect({ host: '127.0.0.1', port })
  socket.on('error', () => {})
  socket.write(Buffer.from(bytes, 'latin1'))
  let text = ''
  for await (const data of socket) {
    text += data.toString('latin1')
    const [head = '', body = ''] = text.split('\r\n\r\n')
    if (text.includes('\r\n\r\n') && body.length >= Number(/^content-length: (\d+)$/im.exec(head)?.[1] ?? 0)) break
  }
  const [head = '', body = ''] = text.split('\r\n\r\n')
  return { status: Number(head.split(' ')[1] ?? 0), head, body }
}
const request = (target: string, host = 'app.example.com', method = 'GET') =>
  `${method} ${target} HTTP/1.1\r\nHost: ${host}\r\nContent-Length: 0\r\n\r\n`
const locationOf = ({ head }: { head: string }) => /^location: (.*)$/im.exec(head)?.[1]

test('plain HTTP is redirected to HTTPS with its method, path and query', async (t) => {
  const { port } = await start(t)
  const cases: [string, string][] = [
    [request('/a/b?c=d&e=%0d%0aX'), 'https://app.example.com/a/b?c=d&e=%0d%0aX'],
    [request('/', 'App.Example.com:8080', 'POST'), 'https://app.example.com/'],
    [request('/x', 'app.example.com.'), 'https://app.example.com/x'],
    [request('/y', 'deep.under.wild.example'), 'https://deep.under.wild.example/y'],
    [request('//evil.example/z'), 'https://app.example.com//evil.example/z'],
    [request('http://app.example.com/absolute?q'), 'https://app.example.com/absolute?q'],
  ]
  for (const [bytes, location] of cases) {
    const answer = await send(port, bytes)
    assert.equal(answer.status, 308, bytes)
    assert.equal(locationOf(answer), location)
    assert.equal(JSON.parse(answer.body).error_code, 'ERR_USE_HTTPS')
    assert.match(answer.head, /^content-type: application\/json$/im)
    assert.match(answer.head, /^x-request-id: [0-9a-f-]{36}$/im)
  }
})

test('plain HTTP is redirected only where an edge serves the host, and adds nothing to the answer', async (t) => {
  const { port } = await start(t)
  const refused: [string, number][] = [
    [request('/', 'other.example.com'), 404],
    [request('/', 'wild.example'), 404],
    [request('/', '127.0.0.1'), 404],
    [request('/', 'app.example.com evil'), 400],
    ['GET / HTTP/1.1\r\n\r\n', 400],
    [request('*', 'app.example.com', 'OPTIONS'), 400],
    [request('/a\rSet-Cookie:x=y'), 400],
    [request('/a\tb'), 400],
    [request('/', 'app.example.com', 'TRACE'), 405],
  ]
  for (const [bytes, status] of refused) {
    const answer = await send(port, bytes)
    assert.equal(answer.status, status, JSON.stringify(bytes))
    assert.equal(locationOf(answer), undefined)
    assert.match(answer.head, /^content-type: application\/json$/im)
    assert.doesNotMatch(answer.head, /set-cookie/i)
  }
})
