import assert from 'node:assert/strict'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { request } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { brotliDecompressSync, gunzipSync } from 'node:zlib'
import fastify from 'fastify'
import { copyDashboard } from '../dev/dashboard_files.ts'
import { serveDashboard } from '../src/http/files/dashboard.ts'
import { toRefusal } from '../src/http/refusals.ts'
import { statuses } from '../src/http/statuses.ts'
import { publicUrl } from './harness/client.ts'
import { startControlPlane } from './harness/control_plane.ts'

// Before the first test: once those that are known have ended, nothing is cleaned up any more.
const plane = await startControlPlane({ after })
const [server] = plane.processes
assert.ok(server)

const home = await mkdtemp(join(tmpdir(), 'gatehouse-dashboard-'))
after(() => rm(home, { recursive: true, force: true }))
const script = `console.log(${JSON.stringify('x'.repeat(5_000))})`
await mkdir(join(home, 'built/assets'), { recursive: true })
for (const [name, content] of Object.entries({
  'secret.txt': 'above',
  'built/index.html': '<!doctype html><title>Gatehouse</title>',
  'built/favicon.svg': '<svg/>',
  'built/assets/app-1a2B3c4D.js': script,
  'built/assets/logo-1a2B3c4D.png': 'png',
  'built/.hidden.txt': 'hidden',
  'built/notes.md': 'of a kind that is not served',
}))
  await writeFile(join(home, name), content)
assert.equal(await copyDashboard(join(home, 'built'), join(home, 'served')), 5)
assert.equal(await copyDashboard(join(home, 'nowhere'), join(home, 'nothing')), 0)

const app = fastify({ forceCloseConnections: true })
app.setErrorHandler((error, _request, reply) => reply.code(statuses[toRefusal(error).code]).send())
serveDashboard(app, join(home, 'served'), publicUrl)
const origin = await app.listen({ port: 0, host: '127.0.0.1' })
after(() => app.close())

type Got = { status: number; headers: Record<string, string | string[] | undefined>; body: Buffer }
/** Without fetch, which resolves dots in a path before it sends it. */
const get = (path: string, headers: Record<string, string> = {}, method = 'GET', at = origin): Promise<Got> =>
  new Promise((resolve, reject) => {
    const { hostname, port } = new URL(at)
    request({ hostname, port, path, method, headers, agent: false }, async (response) => {
      const body = Buffer.concat(await Array.fromAsync(response as AsyncIterable<Buffer>))
      resolve({ status: response.statusCode ?? 0, headers: response.headers, body })
    })
      .on('error', reject)
      .end()
  })

const policy =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
function assertGuarded({ headers }: Got): void {
  assert.equal(headers['content-security-policy'], policy)
  assert.equal(headers['x-frame-options'], 'DENY')
  assert.equal(headers['x-content-type-options'], 'nosniff')
  assert.equal(headers['referrer-policy'], 'no-referrer')
  assert.equal(headers['cross-origin-opener-policy'], 'same-origin')
}

test('every page of the app is index.html, and is never cached', async () => {
  for (const path of ['', 'index.html', 'ip_policies', 'ip_policies/ipp_01h/rules', 'x?y=z.js']) {
    const got = await get(`/dashboard/${path}`)
    assert.equal(got.status, 200, path)
    assert.match(got.body.toString(), /Gatehouse/)
    assert.equal(got.headers['content-type'], 'text/html; charset=utf-8')
    assert.equal(got.headers['cache-control'], 'no-store')
    assertGuarded(got)
  }
})

test('assets are cached forever because their names change with their contents; other files for an hour', async () => {
  const asset = await get('/dashboard/assets/app-1a2B3c4D.js')
  assert.equal(asset.body.toString(), script)
  assert.equal(asset.headers['content-type'], 'text/javascript; charset=utf-8')
  assert.equal(asset.headers['cache-control'], 'public, max-age=31536000, immutable')
  assertGuarded(asset)
  assert.equal((await get('/dashboard/favicon.svg')).headers['cache-control'], 'public, max-age=3600')
})

test('files compressed by the build are sent compressed to clients that accept it', async () => {
  const path = '/dashboard/assets/app-1a2B3c4D.js'
  const forms: [accepted: string, encoding: string | undefined, decode: (bytes: Buffer) => Buffer][] = [
    // Both at the same weight: the smaller one.
    ['gzip, deflate, br', 'br', brotliDecompressSync],
    ['br, gzip;q=0.5', 'br', brotliDecompressSync],
    ['br', 'br', brotliDecompressSync],
    ['gzip', 'gzip', gunzipSync],
    ['br;q=0', undefined, (bytes) => bytes],
    ['identity', undefined, (bytes) => bytes],
  ]
  for (const [accepted, encoding, decode] of forms) {
    const got = await get(path, { 'accept-encoding': accepted })
    assert.equal(got.headers['content-encoding'], encoding, accepted)
    assert.equal(decode(got.body).toString(), script)
    assert.equal(got.headers.vary, 'Accept-Encoding')
  }
  const picture = await get('/dashboard/assets/logo-1a2B3c4D.png', { 'accept-encoding': 'br' })
  assert.deepEqual([picture.headers['content-encoding'], picture.body.toString()], [undefined, 'png'])
  const head = await get(path, {}, 'HEAD')
  assert.deepEqual([head.status, head.body.length], [200, 0])
  assert.equal(head.headers['content-length'], String(script.length))
})

test('a browser that has a file gets 304 while it is unchanged', async () => {
  for (const [path, accepted] of [
    ['/dashboard/favicon.svg', 'identity'],
    ['/dashboard/assets/app-1a2B3c4D.js', 'identity'],
    ['/dashboard/assets/app-1a2B3c4D.js', 'br'],
  ] as const) {
    const first = await get(path, { 'accept-encoding': accepted })
    assert.match(String(first.headers.etag), /^W\/"[^"]+"$/)
    const headers = { 'accept-encoding': accepted, 'if-none-match': String(first.headers.etag) }
    const again = await get(path, headers)
    assert.deepEqual([again.status, again.body.length], [304, 0], `${path} ${accepted}`)
    assertGuarded(again)
    assert.equal(again.headers['cache-control'], first.headers['cache-control'])
  }
})

test('files outside the folder, hidden files and files of other types are not served', async () => {
  for (const path of [
    '../secret.txt',
    '%2e%2e/secret.txt',
    '..%2fsecret.txt',
    '..%5csecret.txt',
    'assets/../../secret.txt',
    'assets/..%2f..%2fsecret.txt',
    `/${home}/secret.txt`,
    `%2f${home}/secret.txt`,
    '.hidden.txt',
    'notes.md',
    'assets/app-1a2B3c4D.js.br',
    'assets/app-1a2B3c4D.js.gz',
    'assets/nothing-1a2B3c4D.js',
    'assets/app-1a2B3c4D.js%00',
    'assets/app-1a2B3c4D.js/',
    'assets.js',
    'index.html/x.js',
  ]) {
    const { status, body } = await get(`/dashboard/${path}`)
    assert.ok(status === 404 || (status === 200 && body.includes('Gatehouse')), `${path}: ${status} ${body}`)
    assert.ok(!/above|hidden|not served/.test(body.toString()), path)
  }
})

const html = { accept: 'text/html,application/xhtml+xml' }

test('/ redirects browsers to the dashboard; other clients get the usual 404', async () => {
  const browser = await get('/', html, 'GET', server.origin)
  assert.deepEqual([browser.status, browser.headers.location], [302, `${publicUrl}/dashboard/`])
  assert.equal((await get('/dashboard', html, 'GET', server.origin)).headers.location, `${publicUrl}/dashboard/`)
  for (const [headers, method] of [
    [{}, 'GET'],
    [{ accept: '*/*' }, 'GET'],
    [html, 'POST'],
  ] as const) {
    const { status, body } = await get('/', headers, method, server.origin)
    assert.deepEqual([status, JSON.parse(body.toString()).error_code], [404, 'ERR_ROUTE_NOT_FOUND'])
  }
})

test('serve returns the app under /dashboard/, or how to build it, with the same headers', async () => {
  const got = await get('/dashboard/', html, 'GET', server.origin)
  assert.ok(got.status === 200 || got.body.includes('npm run build'), got.body.toString())
  assert.equal(got.headers['cache-control'], 'no-store')
  assertGuarded(got)
  const missing = await get('/dashboard/assets/nothing.js', html, 'GET', server.origin)
  assert.equal(JSON.parse(missing.body.toString()).error_code, 'ERR_ROUTE_NOT_FOUND')
  assertGuarded(missing)
})

test('with GATEHOUSE_DASHBOARD=off the dashboard is not served', async () => {
  const { origin: off } = await plane.startProcess({ GATEHOUSE_DASHBOARD: 'off' })
  for (const path of ['/', '/dashboard', '/dashboard/'])
    assert.equal((await get(path, html, 'GET', off)).status, 404, path)
})
