import assert from 'node:assert/strict'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { TLSSocket } from 'node:tls'
import { type Address, formatAddress } from '../../src/kernel/ip/address.ts'
import { firstBytes, id, selfSigned, startEdge } from './proxy_harness.ts'

type Header = { family: 'IPv4' | 'IPv6'; source: string }

/** The PROXY protocol's version 2, as an upstream reads it; undefined while bytes are missing. */
function readHeader(bytes: Buffer): (Header & { length: number }) | undefined {
  if (bytes.length < 16 || bytes.length < 16 + bytes.readUInt16BE(14)) return undefined
  assert.deepEqual(bytes.subarray(0, 13), Buffer.from('\r\n\r\n\0\r\nQUIT\n\x21', 'latin1'))
  const length = 16 + bytes.readUInt16BE(14)
  if (bytes[13] === 0x11) return { family: 'IPv4', source: bytes.subarray(16, 20).join('.'), length }
  assert.equal(bytes[13], 0x21)
  const [w0, w1, w2, w3] = [16, 20, 24, 28].map((at) => bytes.readUInt32BE(at)) as [number, number, number, number]
  const address: Address = { family: 6, w0, w1, w2, w3 }
  return { family: 'IPv6', source: formatAddress(address), length }
}

/** Greets once it has read the header, over TLS when it has a certificate. */
async function startReader(t: TestContext, host: string, pem?: Buffer) {
  const headers: Header[] = []
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => {})
    let bytes = Buffer.alloc(0)
    const onData = (more: Buffer) => {
      bytes = Buffer.concat([bytes, more])
      const header = readHeader(bytes)
      if (!header) return
      const { length, ...read } = header
      headers.push(read)
      socket.off('data', onData)
      socket.pause()
      socket.unshift(bytes.subarray(length))
      const speaker = pem ? new TLSSocket(socket, { isServer: true, key: pem, cert: pem }) : socket
      speaker.on('error', () => {})
      speaker.write('hello')
    }
    socket.on('data', onData)
  })
  await new Promise<void>((resolve) => server.listen(0, host, resolve))
  t.after(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return { address: host, port: (server.address() as { port: number }).port, headers }
}

test('a TCP upstream gets the client in a PROXY header across address families, and in front of TLS', async (t) => {
  const certificateFolder = await mkdtemp(join(tmpdir(), 'gatehouse-upstream-'))
  t.after(() => rm(certificateFolder, { recursive: true, force: true }))
  const caFile = await selfSigned({ certificateFolder }, 'inner.test')
  const pem = await readFile(caFile)
  const edge = await startEdge(t, { caFile })
  const upstreams = {
    v4: await startReader(t, '127.0.0.1'),
    v6: await startReader(t, '::1'),
    v4Tls: await startReader(t, '127.0.0.1', pem),
    v6Tls: await startReader(t, '::1', pem),
  }
  const ports = new Map<string, number>()
  for (const [index, [name, { address, port }]] of Object.entries(upstreams).entries()) {
    const backend = id('bkdst')
    const tls = name.endsWith('Tls')
    ports.set(name, edge.tcpPort + index)
    await edge.put({
      [`backend.${backend}`]: { address, port, tls, host: 'inner.test', send_proxy_protocol: true },
      [`tcp.${id('edgtcp')}`]: {
        account: id('ac'),
        hostports: [`tcp.example.com:${edge.tcpPort + index}`],
        backend,
        policies: null,
      },
    })
  }
  const seen: Record<string, Header[]> = {}
  for (const [name, upstream] of Object.entries(upstreams)) {
    const port = ports.get(name) ?? 0
    assert.equal(await firstBytes({ port, from: '127.0.0.3' }), 'hello', `IPv4 to ${name}`)
    assert.equal(await firstBytes({ port, to: '::1', from: '::1' }), 'hello', `IPv6 to ${name}`)
    seen[name] = upstream.headers
  }
  // A header has one family for both addresses, so an IPv4 client is a mapped one at an IPv6 upstream.
  const toV4: Header[] = [
    { family: 'IPv4', source: '127.0.0.3' },
    { family: 'IPv6', source: '::1' },
  ]
  const toV6: Header[] = [
    { family: 'IPv6', source: '::ffff:7f00:3' },
    { family: 'IPv6', source: '::1' },
  ]
  assert.deepEqual(seen, { v4: toV4, v4Tls: toV4, v6: toV6, v6Tls: toV6 })
})
