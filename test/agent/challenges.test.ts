import assert from 'node:assert/strict'
import { once } from 'node:events'
import { request } from 'node:http'
import { text } from 'node:stream/consumers'
import { after, test } from 'node:test'
import { freePorts } from '../../dev/ports.ts'
import { putHttpsEdge } from './http_harness.ts'
import { id, startEdge } from './proxy_harness.ts'

const [port = 0] = await freePorts(1)
const edge = await startEdge({ after }, { more: { httpBind: [`127.0.0.1:${port}`] } })

async function ask(path: string, host = 'app.example.com', method = 'GET') {
  const outgoing = request({ host: '127.0.0.1', port, path, method, headers: { host } })
  outgoing.end()
  const [response] = await once(outgoing, 'response')
  return { status: response.statusCode as number, body: await text(response), type: response.headers['content-type'] }
}
const challenge = (host: string, token: string) => ({ host, token, answer: `${token}.thumbprint_-` })

test('a challenge is answered on port 80 for its host and token, with or without an edge, and for nothing else', async () => {
  await putHttpsEdge(edge, ['app.example.com:443'])
  const key = `challenge.${id('chl')}`
  await edge.put({
    [key]: challenge('app.example.com', 'tok-1'),
    [`challenge.${id('chl')}`]: challenge('new.example', 'tok-2'),
  })
  const path = '/.well-known/acme-challenge'
  const answer = await ask(`${path}/tok-1`)
  assert.deepEqual(answer, { status: 200, body: 'tok-1.thumbprint_-', type: 'application/octet-stream' })
  assert.equal((await ask(`${path}/tok-1`, 'APP.example.com.:80')).status, 200)
  assert.equal((await ask(`${path}/tok-2`, 'new.example')).body, 'tok-2.thumbprint_-')
  const others: [string, string, number, string?][] = [
    [`${path}/tok-1`, 'new.example', 404],
    [`${path}/tok-2`, 'app.example.com', 308],
    [`${path}/tok-1/`, 'app.example.com', 308],
    [`${path}/tok-1/x`, 'app.example.com', 308],
    [`${path}/`, 'app.example.com', 308],
    [`${path}/tok-1?q`, 'app.example.com', 200],
    [`${path}/tok-1`, 'app.example.com', 308, 'POST'],
    [`/x${path}/tok-1`, 'app.example.com', 308],
    [`${path}/tok`, 'app.example.com', 308],
    [`${path}/tok-1`, 'other.example', 404],
  ]
  for (const [asked, host, status, method] of others)
    assert.equal((await ask(asked, host, method)).status, status, `${method ?? 'GET'} ${host}${asked}`)
  await edge.put({ [key]: null })
  assert.equal((await ask(`${path}/tok-1`)).status, 308)
})

test('a record that is not a challenge is refused', async () => {
  for (const wrong of [
    challenge('app.example.com/x', 'a'),
    challenge('app.example.com', 'a b'),
    challenge('app.example.com', 'a\nb'),
    { host: 'app.example.com', token: 'a', answer: 'no dot' },
  ])
    await assert.rejects(edge.put({ [`challenge.${id('chl')}`]: wrong }))
})
