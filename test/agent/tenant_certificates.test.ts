import assert from 'node:assert/strict'
import { chmod, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { connect, type PeerCertificate } from 'node:tls'
import { tenantFolder, tenantList } from '../../src/agent/haproxy/settings.ts'
import { type NewCertificate, newCertificate } from '../harness/certificates.ts'
import { id, startEdge } from './proxy_harness.ts'

const edge = await startEdge({ after }, { certificates: ['operator.example'] })

/** The certificate that a client gets when it asks for a name; undefined when the handshake fails. */
const servedFor = (name: string): Promise<PeerCertificate | undefined> =>
  new Promise((resolve) => {
    const socket = connect({ port: edge.httpsPort, host: '127.0.0.1', servername: name, rejectUnauthorized: false })
    socket.once('secureConnect', () => {
      resolve(socket.getPeerCertificate())
      socket.destroy()
    })
    socket.once('error', () => resolve(undefined))
  })
const pemOf = ({ certificate_pem, private_key_pem }: NewCertificate) => certificate_pem + private_key_pem
const serial = (pem: PeerCertificate | undefined) => pem?.serialNumber

const certificate = id('cert')
const first = newCertificate(['a.example', '*.wild.example', 'stolen.example'])
const serve = (name: string, one: NewCertificate, except: string[] = []) =>
  edge.proxy.names.serve({ set: [{ name, certificate, except, pem: pemOf(one) }], del: [] })

test('a certificate is served for the names it was given, even if it contains others', async () => {
  assert.deepEqual(await serve('a.example', first), [])
  assert.deepEqual(await serve('*.wild.example', first, ['other.wild.example']), [])
  assert.ok(await servedFor('a.example'))
  assert.ok(await servedFor('x.wild.example'))
  assert.equal(await servedFor('stolen.example'), undefined)
  assert.equal(await servedFor('other.wild.example'), undefined)
  assert.equal(await servedFor('x.y.wild.example'), undefined)
  assert.ok(await servedFor('operator.example'))
})

test('an exact name comes before a wildcard', async () => {
  const exact = newCertificate(['x.wild.example'])
  await serve('x.wild.example', exact)
  const [one, other] = [await servedFor('x.wild.example'), await servedFor('y.wild.example')]
  assert.ok(one && other)
  assert.notEqual(serial(one), serial(other))
  await edge.proxy.names.serve({ set: [], del: ['x.wild.example'] })
  assert.equal(serial(await servedFor('x.wild.example')), serial(other))
})

test('a certificate is replaced without a failed handshake', async () => {
  const before = serial(await servedFor('a.example'))
  let isOver = false
  const seen: (string | undefined)[] = []
  const asking = (async () => {
    while (!isOver) seen.push(serial(await servedFor('a.example')))
  })()
  assert.deepEqual(await serve('a.example', newCertificate(['a.example'])), [])
  // Other exceptions are another line of the list, which takes over from the one before.
  assert.deepEqual(await serve('*.wild.example', first), [])
  const later = serial(await servedFor('a.example'))
  isOver = true
  await asking
  assert.notEqual(later, before)
  assert.ok(!seen.includes(undefined), 'a handshake failed')
  assert.ok(await servedFor('other.wild.example'))
})

test('a certificate that HAProxy rejects is refused, and the one before stays', async () => {
  const before = serial(await servedFor('a.example'))
  const wrong = { ...newCertificate(['a.example']), private_key_pem: first.private_key_pem }
  const [fault] = await serve('a.example', wrong)
  assert.equal(fault?.name, 'a.example')
  assert.doesNotMatch(fault?.fault ?? '', /PRIVATE KEY/)
  assert.equal(serial(await servedFor('a.example')), before)
  const [unknown] = await serve('new.example', wrong)
  assert.equal(unknown?.name, 'new.example')
  assert.equal(await servedFor('new.example'), undefined)
  assert.deepEqual(await serve('new.example', newCertificate(['new.example'])), [])
})

test('only HAProxy can read the files, and a restart begins with them', async () => {
  const folder = tenantFolder(edge.settings)
  const files = await readdir(folder)
  assert.equal(files.length, 3)
  for (const file of files) assert.equal((await stat(join(folder, file))).mode & 0o777, 0o600)
  const before = serial(await servedFor('a.example'))
  await edge.restartAgent()
  assert.equal(serial(await servedFor('a.example')), before)
  assert.equal(edge.proxy.names.served().get('a.example')?.certificate, certificate)
  assert.equal(edge.proxy.names.served().size, 3)

  // A file that is broken on disk is not served after the next start of HAProxy, and keeps nothing else down.
  await edge.proxy.stop()
  const list = await readFile(tenantList(edge.settings), 'latin1')
  const [broken = ''] =
    list
      .split('\n')
      .find((line) => line.includes(' new.example '))
      ?.split(' ') ?? []
  await chmod(broken, 0o600)
  await writeFile(broken, 'half a file')
  await edge.restartAgent()
  assert.equal(serial(await servedFor('a.example')), before)
  assert.equal(await servedFor('new.example'), undefined)
  assert.deepEqual([...edge.proxy.names.served().keys()].sort(), ['*.wild.example', 'a.example'])
  await rm(broken, { force: true })
})
