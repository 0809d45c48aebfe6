// What the command says when no answer of the service comes: something else answers, TLS where none is expected, a token
// that is not accepted. None of these may end in a stack trace.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { readFile, writeFile } from 'node:fs/promises'
import { createServer, type RequestListener } from 'node:http'
import { createServer as createSecureServer } from 'node:https'
import { type AddressInfo, createServer as createTcpServer, type Server } from 'node:net'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { exits } from '../../src/cli/exits.ts'
import { hintOf } from '../../src/cli/hints.ts'
import { errorCatalog } from '../../src/kernel/errors.ts'
import { quickCertificate } from '../harness/quick_certificates.ts'
import { sharedControlPlane } from '../harness/shared_control_plane.ts'
import { testRun } from '../harness/test_run.ts'
import { cliFor } from './harness.ts'

const plane = await sharedControlPlane({ after })
const admin = await plane.newAccount()
const cli = cliFor(plane, admin)
const origin = plane.processes[0]?.origin ?? ''

async function portOf(server: Server): Promise<number> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  after(() => server.close())
  return (server.address() as AddressInfo).port
}

/** The complaint of a command that calls this URL. */
async function complaint(GATEHOUSE_URL: string, args = ['api-keys', 'list']): Promise<string> {
  const { code, stdout, stderr } = await cli(args, { env: { GATEHOUSE_URL } })
  assert.deepEqual([code, stdout], [exits.unreachable.code, ''], stderr)
  assert.doesNotMatch(stderr, /^ +at /m, 'a stack trace')
  return stderr
}

const answering = async (listener: RequestListener) => `http://127.0.0.1:${await portOf(createServer(listener))}`

test('a page of the service itself is not taken for an answer of the API', async () => {
  // As the dashboard answers under each of its paths: its answers have the id of an operation, too.
  const dashboard = await answering((_, response) =>
    response.writeHead(200, { 'operation-id': 'op_x', 'content-type': 'text/html' }).end('<!doctype html>'),
  )
  const told = await complaint(`${dashboard}/dashboard`)
  assert.match(told, /is not Gatehouse: 200 with an HTML page/)
  assert.ok(told.includes(`Try it without /dashboard: ${dashboard}.`), told)
  const { code, stderr } = await cli(['caller'], { env: { GATEHOUSE_URL: `${origin}/v1` } })
  assert.equal(code, exits.notFound.code)
  assert.ok(stderr.includes(`Try it without /v1: ${origin}.`), stderr)
})

test('pages and answers of proxies and other programs are explained', async () => {
  const page =
    (status: number, body: string, type = 'text/html; charset=utf-8'): RequestListener =>
    (_, response) =>
      response.writeHead(status, { 'content-type': type, server: 'other/1.0' }).end(body)
  const signIn = await complaint(await answering(page(200, '<!doctype html><title>Sign in</title>')))
  assert.match(signIn, /200 with an HTML page titled 'Sign in' \(server: other\/1\.0\)/)
  assert.match(signIn, /A proxy that asks people to sign in answers like this/)
  assert.match(await complaint(await answering(page(403, '<html>'))), /403 with an HTML page/)
  assert.match(
    await complaint(await answering(page(502, '<html>'))),
    /A proxy answered. The service behind it may be down/,
  )
  assert.match(
    await complaint(await answering(page(200, '{"api_keys": 1}', 'application/json'))),
    /200 with application\/json/,
  )
  // It claims to be the service, and answers with something else.
  const claims: RequestListener = (_, response) => response.writeHead(200, { 'operation-id': 'op_x' }).end('hello')
  assert.match(await complaint(await answering(claims)), /200 with no content type/)
  assert.match(await complaint(await answering(page(200, '<html>')), ['requests', 'stream']), /an HTML page/)
})

test('TLS where the port has none, and none where it has, is named', async () => {
  const secure = origin.replace('http:', 'https:')
  const noTls = await complaint(secure)
  assert.match(noTls, /the server does not speak TLS on that port/)
  assert.ok(noTls.includes(`use ${origin}.`), noTls)
  assert.doesNotMatch(noTls, /openssl|ssl3/i)
  const { certificate_pem: cert, private_key_pem: key } = quickCertificate(['localhost'])
  const tlsPort = await portOf(createSecureServer({ cert, key }))
  assert.match(await complaint(`http://127.0.0.1:${tlsPort}`), new RegExp(`use https://127\\.0\\.0\\.1:${tlsPort}\\.`))
  // Others answer with a TLS alert, or with a sentence.
  const alert = await portOf(createTcpServer((socket) => socket.end(Buffer.from([0x15, 3, 1, 0, 2, 2, 70]))))
  assert.match(await complaint(`http://127.0.0.1:${alert}`), new RegExp(`use https://127\\.0\\.0\\.1:${alert}\\.`))
  const sentence = await answering((_, response) =>
    response.writeHead(400).end('Client sent an HTTP request to an HTTPS server.\n'),
  )
  assert.match(await complaint(sentence), /That port expects TLS. Use https:/)
})

test('a token that is not accepted is named by where it is set', async () => {
  const wrong = `${admin.token.slice(0, -1)}_`
  const folder = join(testRun.folder, 'wrong-tokens')
  const file = join(testRun.folder, 'wrong-token')
  await writeFile(file, wrong)
  const fails = async (env: Record<string, string>, source: string) => {
    const { code, stderr } = await cli(['caller'], { env })
    assert.equal(code, exits.notAllowed.code, stderr)
    assert.ok(stderr.includes(`does not accept the token of ${source}. (ERR_UNAUTHENTICATED)`), stderr)
    assert.doesNotMatch(stderr, /Bearer/)
    assert.ok(!stderr.includes(wrong))
  }
  await fails({ GATEHOUSE_API_KEY: wrong }, 'GATEHOUSE_API_KEY')
  await fails({ GATEHOUSE_API_KEY: '', GATEHOUSE_API_KEY_FILE: file }, `GATEHOUSE_API_KEY_FILE (${file})`)
  const env = { GATEHOUSE_URL: '', GATEHOUSE_API_KEY: '', XDG_CONFIG_HOME: folder }
  const add = (name: string, more: string[], input: string) =>
    cli.ok(['profiles', 'add', name, '--url', 'http://127.0.0.1:1', ...more], { env, input })
  await add('typed', [], wrong)
  await add('in-a-file', ['--api-key-file', file], '')
  const profiles = join(folder, 'gatehouse', 'profiles.json')
  await writeFile(profiles, JSON.stringify(await profilesAt(profiles, origin)), { mode: 0o600 })
  await fails({ ...env, GATEHOUSE_PROFILE: 'typed' }, `profile 'typed' (${profiles})`)
  await fails({ ...env, GATEHOUSE_PROFILE: 'in-a-file' }, `profile 'in-a-file' (file ${file})`)
})

/** The saved profiles with the URL of the service that runs now. */
async function profilesAt(file: string, url: string) {
  const { profiles } = JSON.parse(await readFile(file, 'utf8'))
  return {
    profiles: Object.fromEntries(Object.entries(profiles).map(([name, each]) => [name, { ...(each as object), url }])),
  }
}

test('hints are about commands, not requests', async () => {
  // Only a client that is broken receives these.
  const never = ['MALFORMED_REQUEST', 'EXPECTATION', 'CONTENT_TYPE', 'HEADERS_TOO_LARGE', 'OTHER_SITE']
  for (const code of Object.keys(errorCatalog).filter((each) => !never.includes(each.slice(4))))
    assert.doesNotMatch(
      hintOf(code, origin) ?? '',
      /\bheader|`(GET|POST|PATCH|PUT|DELETE) |details\.|with PATCH|the request\b/,
      code,
    )
  assert.match(hintOf('ERR_DOMAIN_RESERVED', origin) ?? '', /'gatehouse reserved-domains list'/)
  assert.match(hintOf('ERR_SCOPE', origin) ?? '', /'gatehouse api-keys get <id>'/)
  assert.equal(hintOf('ERR_OF_A_LATER_VERSION', origin), undefined)
})
