// What a client gets that accepts compressed answers, and what is never compressed.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { noteToken } from './harness/client.ts'
import { startControlPlane } from './harness/control_plane.ts'
import { make } from './harness/fixtures.ts'

const plane = await startControlPlane({ after })
const admin = await plane.newAccount()
const [{ origin } = assert.fail()] = plane.processes
const long = 'x'.repeat(2_000)

/** `fetch` unpacks by itself, and leaves the header that says how it was packed. */
const ask = (path: string, headers: Record<string, string>, init: { method?: string; body?: string } = {}) =>
  fetch(`${origin}${path}`, {
    ...init,
    headers: {
      authorization: `Bearer ${admin.token}`,
      'service-version': '2',
      ...(init.body !== undefined && { 'content-type': 'application/json' }),
      ...headers,
    },
  })
const accepting = (codings: string) => ({ 'accept-encoding': codings })

test('a list is the same in every coding, and compressed only when asked for', async () => {
  for (let n = 0; n < 10; n++) await make(admin, '/ip_policies', { description: `policy ${n}` })
  const plain = await ask('/ip_policies', accepting('identity'))
  const text = await plain.text()
  assert.equal(plain.headers.get('content-encoding'), null)
  assert.match(plain.headers.get('vary') ?? '', /Accept-Encoding/)
  for (const [accepted, coding] of [
    ['br', 'br'],
    ['gzip', 'gzip'],
    ['gzip, deflate, br', 'br'],
    ['br;q=0.1, gzip', 'gzip'],
    ['gzip;q=0', null],
    ['zstd', null],
  ] as const) {
    const packed = await ask('/ip_policies', accepting(accepted))
    assert.equal(packed.headers.get('content-encoding'), coding, accepted)
    assert.match(packed.headers.get('vary') ?? '', /Accept-Encoding/)
    assert.equal(await packed.text(), text, accepted)
    if (coding) assert.ok(Number(packed.headers.get('content-length')) < text.length / 2, accepted)
  }
  const { id } = await make(admin, '/api_keys')
  const short = await ask(`/api_keys/${id}`, accepting('br, gzip'))
  assert.equal(short.headers.get('content-encoding'), null)
  assert.ok((await short.text()).length < 1_024)
})

test('a resource with a strong tag is the same bytes for everyone', async () => {
  const { id } = await make(admin, '/api_keys', { metadata: long })
  const path = `/api_keys/${id}`
  const answers = await Promise.all(['identity', 'gzip', 'br'].map((coding) => ask(path, accepting(coding))))
  for (const { headers } of answers) {
    assert.equal(headers.get('content-encoding'), null)
    assert.equal(headers.get('etag'), answers[0]?.headers.get('etag'))
  }
  const tag = answers[0]?.headers.get('etag') ?? ''
  for (const sent of [tag, `W/${tag}`])
    assert.equal((await ask(path, { ...accepting('br'), 'if-none-match': sent })).status, 304, sent)
})

test('an answer with a secret beside what the client sent is not compressed', async () => {
  const created = await ask('/api_keys', accepting('br, gzip'), {
    method: 'POST',
    body: JSON.stringify({ metadata: long }),
  })
  assert.equal(created.status, 201)
  assert.equal(created.headers.get('content-encoding'), null)
  const { token } = JSON.parse(await created.text())
  noteToken(token)
  assert.ok(token)
})
