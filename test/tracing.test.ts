// Spans of API calls, at a real OTLP receiver over HTTP.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { glob, readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { startControlPlane, stop } from './harness/control_plane.ts'
import { poll } from './harness/poll.ts'

type Attribute = { key: string; value: { stringValue?: string; intValue?: number | string } }
type Span = {
  traceId: string
  spanId: string
  parentSpanId?: string
  name: string
  kind: number
  startTimeUnixNano: string
  endTimeUnixNano: string
  attributes: Attribute[]
  status: { code?: number }
}

/** What a collector does with the protocol's JSON form. */
async function startReceiver(t: TestContext) {
  const spans: Span[] = []
  const services = new Set<string | undefined>()
  const server = createServer(async (request, response) => {
    const parts: Buffer[] = []
    for await (const part of request) parts.push(part)
    for (const { resource, scopeSpans } of JSON.parse(Buffer.concat(parts).toString()).resourceSpans) {
      services.add(attributeOf(resource.attributes, 'service.name'))
      for (const scope of scopeSpans) spans.push(...scope.spans)
    }
    response.writeHead(200, { 'Content-Type': 'application/json' }).end('{}')
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => void server.close().closeAllConnections())
  return { spans, services, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1/traces` }
}
const attributeOf = (attributes: Attribute[], name: string): string | undefined => {
  const value = attributes.find(({ key }) => key === name)?.value
  return value && String(value.stringValue ?? value.intValue)
}

const traceId = '0af7651916cd43dd8448eb211c80319c'
const parentSpanId = 'b7ad6b7169203331'

test('every API call is a span in the trace of its client, and contains no secrets', async (t) => {
  const { spans, services, url } = await startReceiver(t)
  const plane = await startControlPlane(t, { env: { GATEHOUSE_TRACES_URL: url } })
  const admin = await plane.newAccount()
  const call = (path: string, headers: Record<string, string> = {}) =>
    fetch(`${plane.processes[0]?.origin}${path}`, {
      headers: { authorization: `Bearer ${admin.token}`, 'service-version': '2', ...headers },
    })
  const answer = await call('/api_keys?limit=3', { traceparent: `00-${traceId}-${parentSpanId}-01` })
  assert.equal(answer.status, 200)
  const span = await poll(() => spans.find((each) => each.traceId === traceId))
  assert.ok(span)
  assert.deepEqual([span.name, span.kind, span.parentSpanId], ['api_keys.list', 2, parentSpanId])
  const of = (name: string) => attributeOf(span.attributes, name)
  assert.deepEqual(
    [of('http.request.method'), of('http.route'), of('http.response.status_code'), of('gatehouse.account')],
    ['GET', '/api_keys', '200', admin.accountId],
  )
  assert.equal(of('gatehouse.operation.id'), answer.headers.get('operation-id'))
  const tookMs = Number(BigInt(span.endTimeUnixNano) - BigInt(span.startTimeUnixNano)) / 1e6
  assert.ok(tookMs > 0 && tookMs < 10_000, `${tookMs}`)
  assert.deepEqual([...services], ['gatehouse'])

  // Neither probes, nor what the client does not want to have traced.
  await call('/readyz')
  await call('/caller', { traceparent: `00-${'1'.repeat(32)}-${parentSpanId}-00` })
  await call('/caller', { traceparent: 'nonsense' })
  const own = await poll(() => spans.find((each) => each.name === 'caller.get'))
  assert.ok(own && own.traceId !== '1'.repeat(32) && !own.parentSpanId, 'begins a trace of its own')
  assert.ok(!spans.some((each) => each.traceId === '1'.repeat(32)))
  assert.ok(!JSON.stringify(spans).includes(admin.token) && !JSON.stringify(spans).includes('limit=3'))
  assert.ok(spans.every(({ name }) => name !== 'none'))
})

test('spans are flushed before the process ends, and an unreachable collector does no harm', async (t) => {
  const { spans, url } = await startReceiver(t)
  const plane = await startControlPlane(t, { env: { GATEHOUSE_TRACES_URL: url } })
  const admin = await plane.newAccount()
  assert.equal((await admin('GET', '/caller')).status, 200)
  const [first] = plane.processes
  assert.ok(first)
  await stop(first.child)
  assert.ok(spans.some(({ name }) => name === 'caller.get'))

  const away = await startControlPlane(t, { env: { GATEHOUSE_TRACES_URL: 'http://127.0.0.1:9/v1/traces' } })
  const other = await away.newAccount()
  assert.equal((await other('GET', '/caller')).status, 200)
  await poll(() => away.processes[0]?.log.some(({ msg }) => msg?.startsWith('traces do not reach')), Boolean, {
    withinSeconds: 30,
  })
  assert.equal((await other('GET', '/caller')).status, 200)
})

test('nothing of OpenTelemetry is loaded unless traces are configured', async () => {
  const root = new URL('..', import.meta.url).pathname
  for await (const file of glob('src/**/*.ts', { cwd: root })) {
    const source = await readFile(join(root, file), 'utf8')
    assert.doesNotMatch(source, /^import (?!type).*tracing\/otlp\.ts/m, file)
    if (!file.startsWith('src/tracing/')) assert.doesNotMatch(source, /@opentelemetry/, file)
  }
})
