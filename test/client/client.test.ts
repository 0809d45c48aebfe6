// The client for TypeScript, with the real service, over networks that fail.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { createClient, NotAppliedError } from '../../clients/typescript/src/client.ts'
import { ConnectionError, GatehouseError } from '../../clients/typescript/src/errors.ts'
import { mayRetry, pauseMs, retryAfterMs } from '../../clients/typescript/src/retries.ts'
import { publicUrl } from '../harness/client.ts'
import { random, randomBelow } from '../harness/random.ts'
import { sharedControlPlane } from '../harness/shared_control_plane.ts'
import { type Fault, startFailingProxy, startStranger } from './failing_proxy.ts'

const plane = await sharedControlPlane({ after })
const url = plane.processes[0]?.origin ?? ''
const account = await plane.newAccount()
const client = createClient({ url, apiKey: account.token })

test('a refusal is an error with everything that the service said', async () => {
  const refused = await client.POST('/ip_policies', { body: { description: 'x'.repeat(300) } }).catch((error) => error)
  assert.ok(refused instanceof GatehouseError)
  assert.deepEqual([refused.status, refused.code, refused.details.field], [400, 'ERR_INVALID_FIELD', 'description'])
  assert.match(refused.message, /at most 255 bytes/)
  assert.match(refused.operationId, /^op_/)
  assert.deepEqual(refused.errors, [{ field: 'description', msg: refused.message }])
})

test('a list of 10,000 is read to its end, each row once, from a service with another public URL', async () => {
  const { data: policy } = await client.POST('/ip_policies', { body: {} })
  const rules = Array.from({ length: 10_000 }, (_, index) => `allow 10.${index >> 8}.${index & 255}.0/24`)
  await client.PUT('/ip_policies/{id}/rules', {
    params: { path: { id: policy.id } },
    body: rules.join('\n'),
    bodySerializer: String,
    headers: { 'Content-Type': 'text/plain' },
  })
  const { data: first } = await client.GET('/ip_policy_rules')
  assert.ok(first.next_page_uri?.startsWith(publicUrl))
  const seen = new Set<string>()
  let rows = 0
  for await (const { cidr } of client.list('/ip_policy_rules', { params: { query: { ip_policy_id: policy.id } } })) {
    seen.add(cidr)
    rows++
  }
  assert.deepEqual([seen.size, rows], [10_000, 10_000])
})

test('over a network that fails at random, every change is made once and none is lost', async (t) => {
  const proxy = await startFailingProxy(t, url)
  const faults: Fault[] = ['drop before', 'drop after', 'drop after', 'cut the body', '503', '429']
  proxy.fault = () => (random() < 0.5 ? faults[randomBelow(faults.length)] : undefined)
  const own = await plane.newAccount()
  const over = createClient({ url: proxy.url, apiKey: own.token, retries: 30, firstPauseMs: 1, maxWaitMs: 20 })
  const names = Array.from({ length: 60 }, (_, index) => `policy ${index}`)
  await Promise.all(
    names.map(async (description, index) => {
      const { data } = await over.POST('/ip_policies', { body: { description } })
      const params = { path: { id: data.id } }
      if (index % 3 === 0) await over.DELETE('/ip_policies/{id}', { params })
      else await over.PATCH('/ip_policies/{id}', { params, body: { metadata: 'changed' } })
    }),
  )
  const found: string[] = []
  for await (const { description, metadata } of over.list('/ip_policies', { params: { query: { limit: 7 } } })) {
    assert.equal(metadata, 'changed')
    found.push(description ?? '')
  }
  assert.deepEqual(found.sort(), names.filter((_, index) => index % 3 !== 0).sort())
  const creations = Array.fromAsync(
    over.list('/audit_events', { params: { query: { operation: 'ip_policies.create' } } }),
  )
  assert.equal((await creations).length, names.length)
  assert.ok(proxy.forwarded.length > 2 * names.length, 'the proxy did not fail')
})

test('what cannot be repeated safely is sent once, and the error says that it may have been done', async (t) => {
  const proxy = await startFailingProxy(t, url)
  const over = createClient({ url: proxy.url, apiKey: account.token, firstPauseMs: 1 })
  const { data: policy } = await over.POST('/ip_policies', { body: {} })
  const params = { path: { id: policy.id } }
  proxy.forwarded.length = 0
  proxy.fault = () => 'drop after'
  const mayBeDone = (error: unknown) => error instanceof ConnectionError && error.mayBeDone
  await assert.rejects(over.POST('/ip_policies/{id}/remove_rules', { params, body: { rule_ids: [] } }), mayBeDone)
  assert.equal(proxy.forwarded.length, 1)
  // Without retries there is no reason for a key, and so no repetition.
  const once = createClient({ url: proxy.url, apiKey: account.token, retries: 0 })
  await assert.rejects(once.POST('/ip_policies', { body: {} }), mayBeDone)
  assert.equal(proxy.forwarded.length, 2)
  // The first attempt changed it. That the second is refused must not look as if nothing had been changed.
  const { response } = await client.GET('/ip_policies/{id}', { params })
  const faults: Fault[] = ['drop after']
  proxy.fault = () => faults.pop()
  const change = {
    params: { ...params, header: { 'If-Match': response.headers.get('ETag') ?? '' } },
    body: { metadata: 'x' },
  }
  await assert.rejects(over.PATCH('/ip_policies/{id}', change), mayBeDone)
  assert.equal((await client.GET('/ip_policies/{id}', { params })).data.metadata, 'x')
})

test('the API key goes to no other host: not by a redirect, not by the link to a page, not by an option of a call', async (t) => {
  const thief = await startStranger(t)
  const redirecting = await startStranger(t, (outgoing) => outgoing.writeHead(307, { Location: `${thief.url}/` }).end())
  const linking = await startStranger(t, (outgoing) =>
    outgoing
      .writeHead(200, { 'Operation-Id': 'op_x', 'Content-Type': 'application/json' })
      .end(JSON.stringify({ keys: [{ id: 'ak_x' }], next_page_uri: `${thief.url}/api_keys?before_id=ak_x` })),
  )
  const to = (stranger: { url: string }) => createClient({ url: stranger.url, apiKey: 'gatehouse_secret', retries: 0 })
  await assert.rejects(to(redirecting).GET('/caller'), ConnectionError)
  const rows = to(linking).list('/api_keys')
  for (let page = 0; page < 3; page++) assert.equal((await rows.next()).value?.id, 'ak_x')
  assert.equal(linking.received.length, 3)
  await assert.rejects(to(linking).GET('/caller', { baseUrl: thief.url }), TypeError)
  await assert.rejects(to(linking).GET('/caller', { baseUrl: `${linking.url}.example` }), TypeError)
  assert.deepEqual(thief.received, [])
  assert.equal(linking.received[0]?.authorization, 'Bearer gatehouse_secret')
  assert.equal(linking.received[0]?.['service-version'], '2')
})

test('a request ends when its caller aborts it, when its time is over, and while it waits to be repeated', async (t) => {
  const silent = await startStranger(t, () => {})
  const impatient = createClient({ url: silent.url, apiKey: 'x', timeoutMs: 50 })
  await assert.rejects(impatient.GET('/caller'), (error) => error instanceof ConnectionError && !error.mayBeDone)
  assert.ok(silent.received.length <= 1, 'it was repeated')
  const aborted = new AbortController()
  const pending = createClient({ url: silent.url, apiKey: 'x' }).GET('/caller', { signal: aborted.signal })
  aborted.abort(new Error('not needed'))
  await assert.rejects(pending, /not needed|abort/)
  const busy = await startStranger(t, (outgoing) => {
    outgoing.writeHead(503, { 'Retry-After': '20' }).end()
    stop.abort(new Error('not needed'))
  })
  const stop = new AbortController()
  await assert.rejects(
    createClient({ url: busy.url, apiKey: 'x' }).GET('/caller', { signal: stop.signal }),
    /not needed|abort/,
  )
  assert.equal(busy.received.length, 1)
})

test('Retry-After is respected, or the request is given up', () => {
  const pauses = { retries: 3, firstPauseMs: 200, maxWaitMs: 10_000 }
  const asked = (ms: number) => ({ status: 429, code: 'ERR_RATE_LIMITED', retryAfterMs: ms })
  assert.ok((pauseMs(asked(9_000), 0, pauses) ?? 0) >= 9_000)
  assert.equal(pauseMs(asked(11_000), 0, pauses), undefined)
  assert.equal(pauseMs({ broke: '' }, 3, pauses), undefined)
  assert.equal(retryAfterMs('17'), 17_000)
  assert.equal(retryAfterMs('Wed, 18 Nov 2026 12:00:30 GMT', Date.parse('2026-11-18T12:00:00Z')), 30_000)
  assert.deepEqual([retryAfterMs(null), retryAfterMs('soon'), retryAfterMs('-1')], [undefined, undefined, 0])
})

test('only failures that pass are repeated, and only if nothing was done or doing it twice is harmless', () => {
  const refused = (code: string) => ({ status: 503, code })
  const rows: [failed: Parameters<typeof mayRetry>[0], ifRepeatable: boolean, otherwise: boolean][] = [
    [refused('ERR_UNAVAILABLE'), true, true],
    [refused('ERR_RATE_LIMITED'), true, true],
    [refused('ERR_OUTCOME_UNKNOWN'), true, false],
    [refused('ERR_TOO_MANY_ATTEMPTS'), false, false],
    [{ status: 503 }, true, false],
    [{ status: 500 }, false, false],
    [{ broke: 'ECONNREFUSED' }, true, true],
    [{ broke: 'ECONNRESET' }, true, false],
    [{ broke: '' }, true, false],
    [{ broke: 'SELF_SIGNED_CERT_IN_CHAIN' }, false, false],
  ]
  for (const [failed, ifRepeatable, otherwise] of rows)
    assert.deepEqual(
      [mayRetry(failed, true), mayRetry(failed, false)],
      [ifRepeatable, otherwise],
      JSON.stringify(failed),
    )
})

test('a change that no edge node has is not in force', async () => {
  const { response } = await client.POST('/backends/static', { body: { address: 'app.internal:80' } })
  await assert.rejects(client.waitApplied(response, { timeoutMs: 0 }), NotAppliedError)
  assert.equal((await client.waitApplied(response, { minNodes: 0 }))?.live, 0)
  assert.equal(await client.waitApplied((await client.GET('/caller')).response), undefined)
})
