// Row 15 of the security review: `tls://` never connects to NATS in plain text, so the password never leaves unencrypted.
import assert from 'node:assert/strict'
import { createServer, type Socket } from 'node:net'
import { type TestContext, test } from 'node:test'
import { startNats } from '../../dev/nats.ts'
import { connectNats, createNatsLink } from '../../src/distribution/nats_connection.ts'
import { startControlPlane } from '../harness/control_plane.ts'
import { poll } from '../harness/poll.ts'

/** Resolves to the reason why it was not joined; fails if it was. */
async function refusal(t: TestContext, servers: string[]): Promise<string> {
  const ending = new AbortController()
  t.after(() => ending.abort())
  return new Promise((resolve, reject) => {
    const settings = { servers, name: 'test', user: 'edge-1', password: 'edge-1', signal: ending.signal }
    const link = createNatsLink(servers, (fault) => resolve(fault ?? 'connected'))
    connectNats({ ...settings, link }).then(
      async (connection) => {
        await connection.close()
        reject(new Error('joined in plain text'))
      },
      () => {},
    )
  })
}

test('row 15: a nats-server without TLS is refused under tls://, alone or among others', async (t) => {
  const nats = await startNats()
  t.after(() => nats.stop())
  const tls = nats.url.replace('nats://', 'tls://')
  assert.match(await refusal(t, [tls]), /the server has no TLS, and tls:\/\/ requires it/)
  // Which of the two servers was tried last decides about the reason.
  assert.match(await refusal(t, [nats.url, 'tls://127.0.0.1:1']), /no TLS|connection refused/)

  const plane = await startControlPlane(t, { env: { ...nats.controlPlane, GATEHOUSE_NATS_URL: tls } })
  const [{ log, origin } = assert.fail()] = plane.processes
  const line = await poll(() => log.find(({ msg }) => msg.startsWith('cannot reach NATS')))
  assert.equal(line?.msg, `cannot reach NATS ${tls}: the server has no TLS, and tls:// requires it (attempt 1)`)
  assert.equal((await fetch(`${origin}/healthz`)).status, 200)
  assert.ok(!log.some(({ msg }) => msg.startsWith('publisher: active')))
})

test('row 15: a man in the middle that strips TLS gets no password', async (t) => {
  const heard: Buffer[] = []
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('data', (data) => heard.push(data)).on('error', () => {})
    socket.write('INFO {"server_id":"x","version":"2.15.0","proto":1,"headers":true,"max_payload":1048576}\r\n')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.after(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  const { port } = server.address() as { port: number }
  assert.match(await refusal(t, [`tls://127.0.0.1:${port}`]), /no TLS/)
  assert.equal(Buffer.concat(heard).toString(), '')
})
