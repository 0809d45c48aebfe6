// The methods and user_agent_filter modules of a route, through a real HAProxy.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect as connectHttp2 } from 'node:http2'
import { type TestContext, test } from 'node:test'
import { ask } from '../../src/agent/haproxy/process/runtime.ts'
import { mapFile } from '../../src/agent/haproxy/settings.ts'
import { poll } from '../harness/poll.ts'
import { exchange, type Get, get, putHttpsEdge, putRoute, startHttpUpstream } from './http_harness.ts'
import { type Edge, onBothPaths, startEdge } from './proxy_harness.ts'

const certificates = ['app.example.com']
type Lists = { allow?: string[]; deny?: string[]; mode?: 'enforce' | 'warn' }
const filter = (lists: Lists) => ({ allow: [], deny: [], mode: 'enforce' as const, ...lists })
const agents = (lists: Lists) => ({ user_agent_filter: filter(lists) })
const methods = (lists: Lists) => ({ methods: filter(lists) })
const agent = (...values: string[]) => values.map((value) => `User-Agent: ${value}`)
const headerOf = (head: string, name: string) => new RegExp(`^${name}: (.*)$`, 'im').exec(head)?.[1]?.trim()

onBothPaths('a route lets through the methods that it allows, and names them where it refuses', async (t, start) => {
  const edge = await start(t, { certificates })
  const upstream = await startHttpUpstream(t)
  const https = await putHttpsEdge(edge)
  const route = (match: string, more: object) => putRoute(edge, https, upstream, { match, ...more })
  await route('/read', methods({ allow: ['GET', 'HEAD', 'PURGE'] }))
  await route('/keep', methods({ deny: ['DELETE', 'PURGE'] }))
  await route('/both', methods({ allow: ['GET', 'POST'], deny: ['POST'] }))
  const long = 'X'.repeat(1_000)
  const statuses = async (path: string, sent: string[]) =>
    Object.fromEntries(
      await Promise.all(
        sent.map(async (method) => [
          method,
          (await get(edge, { path, method, headers: ['Content-Length: 0'] })).status,
        ]),
      ),
    )
  assert.deepEqual(await statuses('/read', ['GET', 'PURGE', 'POST', 'get', 'GETX', 'GE', 'G|T', long, 'TRACE']), {
    ...{ GET: 200, PURGE: 200, POST: 405, get: 405, GETX: 405, GE: 405, 'G|T': 405, [long]: 405, TRACE: 405 },
  })
  assert.deepEqual(await statuses('/keep', ['GET', 'POST', 'DELETE', 'PURGE', 'REPORT']), {
    ...{ GET: 200, POST: 200, DELETE: 405, PURGE: 405, REPORT: 200 },
  })
  assert.deepEqual(await statuses('/both', ['GET', 'POST']), { GET: 200, POST: 405 })
  const refused = async (path: string) => headerOf((await get(edge, { path, method: 'DELETE' })).head, 'allow')
  assert.equal(await refused('/read'), 'GET,HEAD,PURGE')
  assert.equal(await refused('/keep'), 'GET,HEAD,POST,PUT,PATCH,OPTIONS')
  assert.equal(await refused('/both'), 'GET')
  // A method in a header is for the upstream to ignore: the edge judges the one of the request.
  const override = { path: '/read', headers: ['X-HTTP-Method-Override: DELETE'] }
  assert.equal((await get(edge, override)).status, 200)
  assert.equal((await get(edge, { ...override, path: '/keep', method: 'DELETE' })).status, 405)

  const { status, head, body } = await get(edge, { path: '/read', method: 'DELETE' })
  const { error_code, details } = JSON.parse(body)
  assert.deepEqual(
    [status, error_code, details.request_id],
    [405, 'ERR_METHOD_REFUSED', headerOf(head, 'x-request-id')],
  )
  const about = await poll(() => edge.lines.find(({ request }) => request.id === details.request_id)?.request)
  assert.deepEqual([about?.outcome, about?.reason], ['refused', 'methods'])
})

onBothPaths('a route lets clients through by what their User-Agent contains, in any case', async (t, start) => {
  const edge = await start(t, { certificates })
  const upstream = await startHttpUpstream(t)
  const https = await putHttpsEdge(edge)
  const route = (match: string, more: object) => putRoute(edge, https, upstream, { match, ...more })
  await route('/deny', agents({ deny: ['curl/', '50% (off) a|b&c'] }))
  await route('/allow', agents({ allow: ['Example App/'] }))
  await route('/both', agents({ allow: ['app'], deny: ['app/1'] }))
  const statusOf = async (path: string, ...headers: string[]) => (await get(edge, { path, headers })).status
  for (const [path, value, expected] of [
    ['/deny', 'curl/8.0', 403],
    ['/deny', 'x CURL/8', 403],
    ['/deny', 'curl', 200],
    ['/deny', 'say 50% (OFF) A|B&C', 403],
    ['/deny', '50', 200],
    ['/deny', 'a.*', 200],
    ['/allow', 'the example app/7', 200],
    ['/allow', 'other', 403],
    ['/both', 'App/2', 200],
    ['/both', 'App/1', 403],
    ['/both', 'x', 403],
  ] as const)
    assert.equal(await statusOf(path, ...agent(value)), expected, `${path} ${value}`)
  assert.deepEqual([await statusOf('/deny'), await statusOf('/allow')], [200, 403], 'without the header')
  // What could be read in two ways is never let through.
  assert.equal(await statusOf('/deny', ...agent('fine', 'fine')), 403)
  assert.equal(await statusOf('/allow', ...agent('example app/1', 'other')), 403)
  assert.equal(await statusOf('/allow', ...agent('example app/1'), 'User_Agent: other'), 403)
  assert.equal(await statusOf('/allow', 'uSER-aGENT: example app/1'), 200)
  assert.equal(await statusOf('/deny', ...agent('x'.repeat(2_048))), 200)
  assert.equal(await statusOf('/deny', ...agent('x'.repeat(2_049))), 403)
  // In absolute form, the target names the host.
  const absolute = 'GET https://app.example.com/deny HTTP/1.1\r\nHost: app.example.com\r\nUser-Agent: curl/8\r\n\r\n'
  assert.equal((await exchange(edge, absolute)).status, 403)

  const { head, body } = await get(edge, { path: '/deny', headers: agent('curl/8') })
  const { error_code, details } = JSON.parse(body)
  assert.deepEqual([error_code, details.request_id], ['ERR_USER_AGENT_REFUSED', headerOf(head, 'x-request-id')])
  const about = await poll(() => edge.lines.find(({ request }) => request.id === details.request_id)?.request)
  assert.deepEqual([about?.outcome, about?.reason], ['refused', 'user_agent_filter'])
  assert.ok(!upstream.received.includes('curl/'))
  assert.deepEqual(edge.events, [], 'no address was refused')
})

onBothPaths('a warning lets everything through, and says so; policies decide before', async (t, start) => {
  const edge = await start(t, { certificates })
  const upstream = await startHttpUpstream(t)
  const office = await edge.policy('allow 127.0.0.1')
  const route = await putRoute(edge, await putHttpsEdge(edge), upstream, {
    ...agents({ deny: ['curl'], mode: 'warn' }),
    ...methods({ allow: ['GET'], mode: 'warn' }),
    policies: [office],
    headers: { add: [['X-A', 'a']], remove: [] },
  })
  const send = async (more: Get) => (await get(edge, { headers: agent('x'), ...more })).status
  assert.equal(await send({}), 200)
  assert.equal(await send({ headers: agent('curl', 'curl') }), 200)
  assert.equal(await send({ method: 'DELETE' }), 200)
  assert.equal(await send({ method: 'DELETE', from: '127.0.0.2' }), 403)
  const told = await poll(
    () => edge.lines.filter(({ request }) => request.route === route).map(({ request }) => request),
    (lines) => lines.length === 4,
  )
  assert.deepEqual(
    told.map(({ outcome, reason }) => `${outcome} ${reason}`),
    ['allowed null', 'warned user_agent_filter', 'warned methods', 'refused policy'],
  )
})

/** On one connection, whose later requests take a shorter way than its first. */
function openSession(t: TestContext, { httpsPort }: Edge) {
  const options = { rejectUnauthorized: false, servername: 'app.example.com' }
  const session = connectHttp2(`https://127.0.0.1:${httpsPort}`, options)
  t.after(() => session.destroy())
  return async (method: string, userAgent: string): Promise<number> => {
    const sent = { ':method': method, ':path': '/', ':authority': 'app.example.com', 'user-agent': userAgent }
    const stream = session.request(sent, { endStream: true })
    const [headers] = await once(stream, 'response')
    stream.resume()
    return Number(headers[':status'])
  }
}

test('filters apply to each request of an HTTP/2 connection, after changes, a restart of the agent and a lost entry', async (t) => {
  const edge = await startEdge(t, { certificates })
  const upstream = await startHttpUpstream(t)
  const https = await putHttpsEdge(edge)
  const both = { ...agents({ deny: ['curl'] }), ...methods({ allow: ['GET'] }) }
  const route = await putRoute(edge, https, upstream, both)
  const send = openSession(t, edge)
  const seen = async () => [await send('GET', 'x'), await send('GET', 'Curl'), await send('POST', 'x')]
  assert.deepEqual(await seen(), [200, 403, 405])
  await edge.restartAgent()
  assert.deepEqual(await seen(), [200, 403, 405])
  for (const map of ['methods', 'user_agent_filter'] as const) {
    await ask(edge.settings.runtimeSocket, `set map ${mapFile(edge.settings, map)} ${route} nothing-of-a-filter`)
    assert.equal(await send('GET', 'x'), map === 'methods' ? 405 : 403, `${map} cannot be read`)
    await ask(edge.settings.runtimeSocket, `del map ${mapFile(edge.settings, map)} ${route}`)
    assert.equal(await send('GET', 'x'), 500, `${map} is missing`)
  }
})
