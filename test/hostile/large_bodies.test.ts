// Row 7: one request kills a process.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { percentile, startBystander } from '../harness/bystander.ts'
import { startControlPlane } from '../harness/control_plane.ts'
import { policyWith, putRules } from '../harness/ip.ts'
import { loadScaledTimeout } from '../harness/load_scaled_timeout.ts'
import { peakMemoryMiB } from '../harness/memory.ts'
import { type HeaderLine, headersOf, json, RawConnection, requestBytes } from '../harness/raw.ts'

const plane = await startControlPlane({ after })
const [server] = plane.processes
const admin = await plane.newAccount()
const bystander = await plane.newAccount()
const absent = 'ipp_00000000000000000000000000'
const text: HeaderLine = ['Content-Type', 'text/plain']
const chunked: HeaderLine = ['Transfer-Encoding', 'chunked']
const length = (bytes: number): HeaderLine => ['Content-Length', String(bytes)]

const rule = '{"cidr":"10.0.0.1","action":"allow","description":"one of very many"},'
const hugeJson = Buffer.from(`{"rules":[${rule.repeat(Math.ceil((32 * 1024 * 1024) / rule.length))}]}`)
const inChunks = (bytes: Buffer): Buffer =>
  Buffer.concat([
    ...Array.from({ length: Math.ceil(bytes.length / 65_536) }, (_, index) => {
      const part = bytes.subarray(index * 65_536, (index + 1) * 65_536)
      return Buffer.concat([Buffer.from(`${part.length.toString(16)}\r\n`), part, Buffer.from('\r\n')])
    }),
    Buffer.from('0\r\n\r\n'),
  ])

const put = (path: string, token: string, ...headers: HeaderLine[]) =>
  requestBytes({ method: 'PUT', path, headers: [...headersOf(token), ...headers], body: '' })

/** Sends the headers, then the body without reading answers, as a client does that does not look until it is done. */
async function send(path: string, headers: HeaderLine[], body: Buffer) {
  const connection = await RawConnection.open(plane)
  const began = performance.now()
  connection.write(put(path, admin.token, ...headers))
  connection.write(body)
  const answer = await connection.answer()
  connection.close()
  return { status: answer?.status, body: answer?.body, ms: performance.now() - began }
}

test('row 7: 32 MiB of JSON are refused when declared, cut off when not, and memory stays small', {
  timeout: 120_000,
}, async (t) => {
  const policy = await policyWith(admin, 'allow 192.0.2.1')
  const declared = [json, length(hugeJson.length)]
  const streamed = [json, chunked]
  const path = `/ip_policies/${policy}/rules`
  const end = startBystander({ origin: server?.origin ?? '', token: bystander.token, path: '/caller' })

  const connection = await RawConnection.open(plane)
  const began = performance.now()
  connection.write(put(path, admin.token, ...declared))
  const refused = await connection.answer()
  const ms = performance.now() - began
  assert.deepEqual([refused?.status, refused?.body.error_code], [413, 'ERR_BODY_TOO_LARGE'])
  t.diagnostic(`refused ${ms.toFixed(1)} ms after its headers`)
  assert.ok(ms < loadScaledTimeout(100), `refused after ${ms} ms`)
  connection.close()

  const chunks = inChunks(hugeJson)
  const answers = await Promise.all(
    Array.from({ length: 12 }, (_, index) =>
      index % 2 ? send(path, streamed, chunks) : send(path, declared, hugeJson),
    ),
  )
  for (const { status, body } of answers) {
    assert.equal(status, 413)
    assert.match(body.msg, /text\/plain/)
  }
  const experience = await end()
  const memory = peakMemoryMiB(server?.child.pid)
  t.diagnostic(
    `p99 of another account: ${percentile(experience, 0.99).toFixed(1)} ms; peak memory: ${memory.toFixed(0)} MiB`,
  )
  assert.deepEqual(experience.failures, [])
  assert.ok(memory < 300, `${memory} MiB`)
})

test('row 7: a large rule set is refused before it is sent if the policy is absent or the caller may not change it', {
  timeout: 120_000,
}, async () => {
  const policy = await policyWith(admin, 'allow 0.0.0.0/0')
  await admin('POST', '/ip_restrictions', { type: 'agent', enforced: false, ip_policy_ids: [policy] })
  const bot = (await admin('POST', '/bot_users', { name: 'importer' })).body
  const member = (await admin('POST', '/api_keys', { owner_id: bot.id })).body.token
  const large = 20 * 1024 * 1024
  for (const [path, token, headers, wanted] of [
    [`/ip_policies/${absent}/rules`, admin.token, [text, length(large)], 404],
    [`/ip_policies/${policy}/rules`, bystander.token, [text, length(large)], 404],
    [`/ip_policies/${policy}/rules`, member, [text, length(large)], 403],
    [`/ip_policies/${policy}/rules`, member, [text, length(33 * 1024 * 1024)], 413],
    [`/ip_policies/${policy}/rules?nothing=1`, member, [text, length(large)], 400],
  ] as [string, string, HeaderLine[], number][]) {
    const connection = await RawConnection.open(plane)
    connection.write(put(path, token, ...headers))
    assert.equal((await connection.answer())?.status, wanted, path)
    connection.close()
  }
  // Without a declared length it is found out as soon as the body is large.
  const connection = await RawConnection.open(plane)
  connection.write(put(`/ip_policies/${absent}/rules`, admin.token, text, chunked))
  connection.write(inChunks(Buffer.alloc(2 * 1024 * 1024, '# a comment\n')).subarray(0, -5))
  assert.equal((await connection.answer())?.status, 404)
  connection.close()
})

test('a small rule set follows the usual order of checks: fields before existence', {
  timeout: 120_000,
}, async () => {
  assert.equal((await putRules(admin, absent, ['allow nonsense'])).status, 400)
  assert.equal((await putRules(admin, absent, ['allow 10.0.0.1'])).status, 404)
})

test('text carries everything that JSON does: metadata, and descriptions of several lines', {
  timeout: 120_000,
}, async () => {
  const policy = await policyWith(admin, 'allow 10.0.0.1 metadata=%7B%22a%22%3A1%7D description=two%0Alines')
  const [rule] = (await admin('GET', `/ip_policies/${policy}/rules`)).body.rules
  assert.deepEqual([rule.metadata, rule.description], ['{"a":1}', 'two\nlines'])
  assert.equal((await putRules(admin, policy, ['allow 10.0.0.1 # said nothing of metadata'])).body.changed, 1)
  const read = async () => (await admin('GET', `/ip_policies/${policy}/rules`)).body.rules[0]
  assert.equal((await read()).metadata, '{"a":1}')
  await putRules(admin, policy, ['allow 10.0.0.1 metadata='])
  assert.equal((await read()).metadata, undefined)
  for (const line of [
    'allow 10.0.0.1 metadata=%',
    'allow 10.0.0.1 metadata=a metadata=b',
    'allow 10.0.0.1 description=a # b',
    'allow 10.0.0.1 expires=2030-01-31T12:00:00Z expires=2030-01-31T12:00:00Z',
    `allow 10.0.0.1 metadata=${'a'.repeat(4_097)}`,
    'allow 10.0.0.1 color=red',
    'allow 10.0.0.1 metadata=%00',
  ])
    assert.equal((await putRules(admin, policy, [line])).status, 400, line)
})
