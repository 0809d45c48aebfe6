import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { startControlPlane } from '../harness/control_plane.ts'
import { nothingWasADefect } from '../harness/defects.ts'
import { loadScaledTimeout } from '../harness/load_scaled_timeout.ts'
import { holdsFor, pause } from '../harness/poll.ts'
import {
  type HeaderLine,
  headersOf,
  json,
  RawConnection,
  type RawRequest,
  rawExchange,
  requestBytes,
} from '../harness/raw.ts'

const plane = await startControlPlane({ after })
const admin = await plane.newAccount()
const good = headersOf(admin.token)
const chunked: HeaderLine = ['Transfer-Encoding', 'chunked']
const limit = 64 * 1024

const hasty = await startControlPlane({ after }, { env: { GATEHOUSE_REQUEST_TIMEOUT_MS: '500' } })
const hastyAdmin = await hasty.newAccount()

const inChunks = (text: string, size: number) =>
  `${(text.match(new RegExp(`.{1,${size}}`, 'gs')) ?? []).map((part) => `${part.length.toString(16)}\r\n${part}\r\n`).join('')}0\r\n\r\n`
const create = (body: string, ...headers: HeaderLine[]): RawRequest => ({
  method: 'POST',
  path: '/api_keys',
  headers: [...good, json, ...headers],
  body,
})
/** A body of this many bytes that is otherwise fine: JSON takes any number of spaces. */
const padded = (bytes: number) => `{${' '.repeat(bytes - 2)}}`

test('a body of 64 KiB is read, whole or in chunks', async () => {
  assert.equal((await rawExchange(plane, create(padded(limit)))).status, 201)
  assert.equal((await rawExchange(plane, create(inChunks(padded(limit), 1_000), chunked))).status, 201)
})

for (const [what, request] of [
  ['one byte over, declared', create(padded(limit + 1))],
  ['one byte over, in chunks', create(inChunks(padded(limit + 1), 1_000), chunked)],
  ['far over, declared', create(padded(5_000_000))],
  ['far over, in one chunk', create(inChunks(padded(5_000_000), 5_000_000), chunked)],
  ['far over, in small chunks', create(inChunks(padded(1_000_000), 100), chunked)],
] as const) {
  test(`a body over 64 KiB gets 413, and the connection can be used again: ${what}`, {
    timeout: loadScaledTimeout(10_000),
  }, async () => {
    const connection = await RawConnection.open(plane)
    const { status, body } = await connection.exchange(request)
    assert.deepEqual([status, body.error_code], [413, 'ERR_BODY_TOO_LARGE'])
    assert.match(body.msg, /65536 bytes/)
    assert.equal((await connection.exchange({ method: 'GET', path: '/caller', headers: good })).status, 200)
    connection.close()
  })
}

test('a body over the limit is refused as soon as it is declared, before it is sent', {
  timeout: loadScaledTimeout(10_000),
}, async () => {
  const connection = await RawConnection.open(plane)
  connection.write(requestBytes({ ...create('{'), headers: [...good, json, ['Content-Length', '1000000000']] }))
  assert.equal((await connection.answer())?.status, 413)
  connection.close()
})

test('a body on GET and DELETE gets 400, and the connection can be used again', {
  timeout: loadScaledTimeout(10_000),
}, async () => {
  for (const [method, path] of [
    ['GET', '/api_keys'],
    ['GET', '/caller'],
    ['DELETE', '/api_keys/ak_00000000000000000000000000'],
  ] as const) {
    for (const [body, ...framing] of [
      ['{}'],
      [' '],
      ['x'.repeat(1_000_000)],
      [inChunks('{}', 1), chunked],
      [inChunks('x'.repeat(1_000_000), 50_000), chunked],
    ] as [string, ...HeaderLine[]][]) {
      const connection = await RawConnection.open(plane)
      const answer = await connection.exchange({ method, path, headers: [...good, json, ...framing], body })
      assert.deepEqual([answer.status, answer.body.error_code], [400, 'ERR_MALFORMED_REQUEST'])
      assert.equal((await connection.exchange({ method: 'GET', path: '/caller', headers: good })).status, 200)
      connection.close()
    }
  }
})

test('an empty body on GET and DELETE is ignored, however it is declared', async () => {
  for (const framing of [[['Content-Length', '0']], [chunked]] as HeaderLine[][]) {
    const body = framing[0] === chunked ? '0\r\n\r\n' : ''
    const headers = [...good, json, ...framing]
    assert.equal((await rawExchange(plane, { method: 'GET', path: '/caller', headers, body })).status, 200)
    const { uri } = (await admin('POST', '/api_keys', {})).body
    const path = new URL(uri).pathname
    assert.equal((await rawExchange(plane, { method: 'DELETE', path, headers, body })).status, 204)
  }
})

test('two Host headers get 400, even when they agree', async () => {
  for (const [one, other] of [
    ['gatehouse', 'gatehouse'],
    ['gatehouse', 'evil.example'],
  ] as const) {
    const { status, body } = await rawExchange(plane, {
      method: 'GET',
      path: '/caller',
      headers: [['Host', one], ['Host', other], ...good],
    })
    assert.deepEqual([status, body.error_code], [400, 'ERR_MALFORMED_REQUEST'])
  }
})

test('pipelined requests are answered in order', async () => {
  const connection = await RawConnection.open(plane)
  connection.write(
    Buffer.concat([
      requestBytes(create('{"description":"first"}')),
      requestBytes(create('{"nothing":1}')),
      requestBytes({ method: 'GET', path: '/caller', headers: good }),
    ]),
  )
  const answers = [await connection.answer(), await connection.answer(), await connection.answer()]
  assert.deepEqual(
    answers.map((answer) => answer?.status),
    [201, 400, 200],
  )
  connection.close()
})

test('a client that disconnects mid-body creates nothing and affects no other request', async () => {
  const count = async () => (await admin('GET', '/api_keys?limit=100')).body.keys.length
  const before = await count()
  for (const headers of [
    [json, ['Content-Length', '100']],
    [json, chunked],
  ] as HeaderLine[][]) {
    const connection = await RawConnection.open(plane)
    connection.write(
      requestBytes({ method: 'POST', path: '/api_keys', headers: [...good, ...headers], body: '2\r\n{}' }),
    )
    await pause(50)
    connection.close()
  }
  await holdsFor(100, async () => (await count()) === before)
  const blamed = plane.processes.flatMap(({ log }) => log).filter(({ status }) => status === 503)
  assert.deepEqual(blamed, [], 'the database had no part in it')
})

/** Sends a byte now and then, as long as it is let. */
function trickle(connection: RawConnection): () => void {
  const timer = setInterval(() => connection.write(' '), 50)
  return () => clearInterval(timer)
}

for (const [what, start, expected] of [
  [
    'a body',
    requestBytes({ ...create('{'), headers: [...headersOf(hastyAdmin.token), json, ['Content-Length', '60000']] }),
    408,
  ],
  ['headers', Buffer.from('GET /caller HTTP/1.1\r\nHost: gatehouse\r\nX-Slow:'), 408],
  [
    'a body that was refused already',
    requestBytes({ ...create('{'), headers: [...headersOf(hastyAdmin.token), json, ['Content-Length', '1000000']] }),
    413,
  ],
] as const) {
  test(`${what} that trickles in more slowly than the request timeout is ended`, {
    timeout: loadScaledTimeout(20_000),
  }, async () => {
    const connection = await RawConnection.open(hasty)
    const began = Date.now()
    connection.write(start)
    const stop = trickle(connection)
    try {
      const answer = await connection.answer()
      assert.equal(answer?.status, expected)
      if (expected === 408) assert.equal(answer?.body.error_code, 'ERR_REQUEST_TIMEOUT')
      // Others are served meanwhile.
      assert.equal((await hastyAdmin('GET', '/caller')).status, 200)
      await connection.closed()
      // The time-out itself, and a second for how often connections are looked at; the rest is for a slow machine.
      assert.ok(Date.now() - began < loadScaledTimeout(10_000))
    } finally {
      stop()
      connection.close()
    }
  })
}

nothingWasADefect(plane)
nothingWasADefect(hasty)
