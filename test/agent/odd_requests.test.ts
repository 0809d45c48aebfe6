import assert from 'node:assert/strict'
import { test } from 'node:test'
import { exchange, get, putHttpsEdge, putRoute, startHttpUpstream } from './http_harness.ts'
import { startEdge } from './proxy_harness.ts'

for (const isCarefulOnly of [false, true])
  test(`a Host with a final dot is the same host, none gets 400, and CONNECT and TRACE get 405 (careful: ${isCarefulOnly})`, async (t) => {
    const edge = await startEdge(t, { certificates: ['app.example.com'], isCarefulOnly })
    const upstream = await startHttpUpstream(t)
    await putRoute(edge, await putHttpsEdge(edge), upstream)
    assert.equal((await get(edge, { host: 'app.example.com.' })).body, 'upstream')
    assert.equal((await get(edge, { host: 'app.example.com.:443' })).body, 'upstream')
    const requests = upstream.heads.length
    const refused: [string, number, string][] = [
      ['GET / HTTP/1.1\r\n\r\n', 400, 'ERR_BAD_HOST'],
      ['GET / HTTP/1.1\r\nHost:\r\n\r\n', 400, 'ERR_BAD_HOST'],
      ['TRACE / HTTP/1.1\r\nHost: app.example.com\r\n\r\n', 405, 'ERR_METHOD_NOT_ALLOWED'],
      ['CONNECT app.example.com:443 HTTP/1.1\r\nHost: app.example.com:443\r\n\r\n', 405, 'ERR_METHOD_NOT_ALLOWED'],
    ]
    for (const [bytes, status, code] of refused) {
      const answer = await exchange(edge, bytes)
      assert.deepEqual([answer.status, JSON.parse(answer.body).error_code], [status, code], bytes)
      assert.match(answer.head, /^x-request-id: [0-9a-f-]{36}$/im)
    }
    assert.equal(upstream.heads.length, requests)
  })
