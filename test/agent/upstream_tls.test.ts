import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { createServer as createHttpsServer } from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { createServer as createTlsServer } from 'node:tls'
import { get, putHttpsEdge } from './http_harness.ts'
import { firstBytes, id, startEdge } from './proxy_harness.ts'

/** A certificate authority of our own, and what it signs. */
async function authority(t: TestContext) {
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-ca-'))
  t.after(() => rm(folder, { recursive: true, force: true }))
  const openssl = (...args: string[]) => execFileSync('openssl', args, { cwd: folder, stdio: 'ignore' })
  const newKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes']
  openssl('req', '-x509', ...newKey, '-subj', '/CN=Test CA', '-keyout', 'ca.key', '-out', 'ca.pem', '-days', '2')
  return {
    caFile: join(folder, 'ca.pem'),
    async issue(name: string) {
      openssl('req', ...newKey, '-subj', `/CN=${name}`, '-keyout', `${name}.key`, '-out', `${name}.csr`)
      await writeFile(join(folder, 'names'), `subjectAltName=DNS:${name}`)
      const signed = ['-CA', 'ca.pem', '-CAkey', 'ca.key', '-CAcreateserial', '-days', '2', '-extfile', 'names']
      openssl('x509', '-req', '-in', `${name}.csr`, '-out', `${name}.pem`, ...signed)
      return { key: await readFile(join(folder, `${name}.key`)), cert: await readFile(join(folder, `${name}.pem`)) }
    },
  }
}

test("an upstream's certificate must match the backend's name and come from a CA that the operator trusts", async (t) => {
  const trusted = await authority(t)
  const stranger = await authority(t)
  const edge = await startEdge(t, { caFile: trusted.caFile, certificates: ['app.example.com'] })
  const https = await putHttpsEdge(edge)
  const names: (string | false | null)[] = []
  const listen = async (server: ReturnType<typeof createTlsServer>) => {
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    t.after(() => server.close())
    return (server.address() as { port: number }).port
  }
  const ca = { right: await trusted.issue('inner.test'), foreign: await stranger.issue('inner.test') }
  const ports: Record<string, number> = {}
  for (const [name, pair] of Object.entries(ca)) {
    const server = createHttpsServer(pair, (request, response) => {
      names.push((request.socket as unknown as { servername: string }).servername)
      response.end('hello')
    })
    t.after(() => server.closeAllConnections())
    ports[name] = await listen(server)
  }
  const greeter = createTlsServer(ca.right, (socket) => {
    socket.on('error', () => {})
    socket.end('hello')
  })
  ports.tcp = await listen(greeter)

  const backend = (port: number | undefined, host: string) => ({ address: '127.0.0.1', port, tls: true, host })
  const status = async (port: number | undefined, host: string) => {
    const [route, bkdst] = [id('edghtsrt'), id('bkdst')]
    const match = `/${route}`
    await edge.put({
      [`backend.${bkdst}`]: backend(port, host),
      [`route.${route}`]: {
        account: id('ac'),
        edge: https,
        match_type: 'path_prefix',
        match,
        backend: bkdst,
        policies: null,
        headers: null,
      },
    })
    return (await get(edge, { path: match })).status
  }
  assert.equal(await status(ports.right, 'inner.test'), 200)
  assert.equal(await status(ports.right, 'INNER.test'), 200)
  assert.equal(await status(ports.right, 'other.test'), 503)
  assert.equal(await status(ports.right, 'inner.test.evil.test'), 503)
  assert.equal(await status(ports.foreign, 'inner.test'), 503)
  assert.equal(await status(ports.right, 'inner.test'), 200, 'with a connection at hand')
  assert.deepEqual(new Set(names), new Set(['inner.test']), 'the name is asked for')

  const [tcp, right, wrong] = [id('edgtcp'), id('bkdst'), id('bkdst')]
  const record = {
    account: id('ac'),
    hostports: [`127.0.0.1:${edge.tcpPort}`],
    policies: null,
  }
  await edge.put({
    [`backend.${right}`]: backend(ports.tcp, 'inner.test'),
    [`backend.${wrong}`]: backend(ports.tcp, 'other.test'),
    [`tcp.${tcp}`]: { ...record, backend: right },
  })
  assert.equal(await firstBytes({ port: edge.tcpPort }), 'hello')
  await edge.put({ [`tcp.${tcp}`]: { ...record, backend: wrong } })
  assert.equal(await firstBytes({ port: edge.tcpPort }), '')
})
