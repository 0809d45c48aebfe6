// From an upload to a TLS handshake, through the real control plane, NATS and HAProxy.
import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { readFile, rm, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { connect as connectTls } from 'node:tls'
import { connect } from '@nats-io/transport-node'
import type { Id } from '../../src/kernel/ids.ts'
import { type NewCertificate, newCertificate } from '../harness/certificates.ts'
import { gatehouse } from '../harness/command.ts'
import { type Account, secretsKeyFile } from '../harness/control_plane.ts'
import { type EdgeProcess, startInstallation } from '../harness/edge.ts'
import { poll } from '../harness/poll.ts'

const installation = await startInstallation({ after })
const { admin } = installation
const other = await installation.newAccount()
let edge: EdgeProcess = await installation.startEdge()

/** The serial number of what a client gets for a name, in lower case; undefined when the handshake fails. */
const servedFor = (name: string): Promise<string | undefined> =>
  new Promise((resolve) => {
    const socket = connectTls({ port: edge.httpsPort, host: '127.0.0.1', servername: name, rejectUnauthorized: false })
    socket.once('secureConnect', () => {
      resolve(socket.getPeerCertificate().serialNumber.toLowerCase())
      socket.destroy()
    })
    socket.once('error', () => resolve(undefined))
  })
const untilServed = (name: string, wanted: string | undefined) =>
  poll(
    () => servedFor(name),
    (serial) => serial === wanted,
  )

async function upload(account: Account, one: NewCertificate) {
  const created = await account('POST', '/tls_certificates', one)
  assert.equal(created.status, 201, created.text)
  return created.body as { id: Id<'cert'>; uri: string; serial_number: string }
}

/** A domain that the operator has assigned, and the certificate that it is to use. */
async function hold(account: Account, domain: string, certificate?: { id: Id<'cert'> }): Promise<string> {
  const created = await account('POST', '/reserved_domains', { domain })
  assert.equal(created.status, 201, created.text)
  const { id, uri } = created.body
  const command = ['domains', 'assign', account.accountId, domain]
  const { code, stderr } = await gatehouse(command, { GATEHOUSE_DATABASE_URL: installation.databaseUrl })
  assert.equal(code, 0, stderr)
  if (certificate) await use(account, uri, certificate.id)
  return id
}
async function use(account: Account, domain: string, certificate_id: string | null): Promise<void> {
  const changed = await account('PATCH', `${domain}?wait=applied`, { certificate_id })
  assert.equal(changed.status, 200, changed.text)
}

const secretLines = (pem: string) => pem.split('\n').filter((line) => line.length > 40)
const nodes = async () => (await admin('GET', '/edge_nodes')).body.edge_nodes

test('a certificate is served for the domain that uses it, and for no other name in it', async () => {
  const one = newCertificate(['shop.example', '*.shop.example', 'elsewhere.example'])
  const certificate = await upload(admin, one)
  await hold(admin, 'shop.example', certificate)
  await untilServed('shop.example', certificate.serial_number)
  await untilServed('www.shop.example', certificate.serial_number)
  // The name is under the wildcard of the operator, whose certificate is served for it.
  assert.notEqual(await servedFor('elsewhere.example'), certificate.serial_number)
  const { body } = await admin('GET', certificate.uri)
  assert.equal(body.in_use_by.length, 1)
  const refused = await admin('DELETE', certificate.uri)
  assert.equal(refused.status, 409)
  assert.equal(refused.body.error_code, 'ERR_TLS_CERTIFICATE_IN_USE')

  const renewed = newCertificate(['shop.example', '*.shop.example'])
  const { status, body: replaced } = await admin('PATCH', `${certificate.uri}?wait=applied`, renewed)
  assert.equal(status, 200)
  assert.equal(await servedFor('shop.example'), replaced.serial_number)

  const [node] = await nodes()
  assert.equal(node.certificate_key.accepted, true)
  assert.match(node.certificate_key.fingerprint, /^[0-9a-f]{32}$/)
})

test('what another account holds below a domain is not served with its certificate', async () => {
  const certificate = await upload(admin, newCertificate(['mall.test', '*.mall.test', 'deep.stand.mall.test']))
  await hold(admin, 'mall.test', certificate)
  await hold(other, 'stand.mall.test')
  await untilServed('mall.test', certificate.serial_number)
  await untilServed('stand.mall.test', undefined)
  assert.equal(await servedFor('www.mall.test'), certificate.serial_number)
  await untilServed('deep.stand.mall.test', undefined)
})

test('a certificate of an account claims no name of another, even when the domain is only reserved', async () => {
  const certificate = await upload(other, newCertificate(['shop.example', 'bank.test']))
  await hold(admin, 'bank.test')
  const { body: reserved } = await other('POST', '/reserved_domains', { domain: 'bank.test' })
  await use(other, reserved.uri, certificate.id)
  assert.equal(await servedFor('bank.test'), undefined)
  assert.notEqual(await servedFor('shop.example'), certificate.serial_number)
})

test("a file of the operator's is served before an uploaded certificate of the same name, and no longer when it is gone", async () => {
  const certificate = await upload(admin, newCertificate(['both.test', '*.both.test']))
  await hold(admin, 'both.test', certificate)
  await untilServed('both.test', certificate.serial_number)
  // With another type of key: HAProxy would choose by what the client prefers if it had both.
  const { certificate_pem, private_key_pem } = newCertificate(['both.test'], { key: ['-newkey', 'rsa:2048'] })
  const file = join(edge.folder, 'certificates', 'both.pem')
  await writeFile(file, certificate_pem + private_key_pem)
  await untilServed('both.test', new X509Certificate(certificate_pem).serialNumber.toLowerCase())
  assert.equal(await servedFor('www.both.test'), certificate.serial_number)
  const [node] = await poll(nodes, ([known]) => known.certificates?.unusable > 0)
  assert.ok(
    node.refusals.some(({ reason }: { reason: string }) => /for both\.test.* both\.pem of its operator/.test(reason)),
  )
  await rm(file)
  await untilServed('both.test', certificate.serial_number)
  await poll(nodes, ([known]) => known.certificates?.unusable === 0)
})

test('a private key is in clear text only in the files of the node', async () => {
  const one = newCertificate(['secret.test'])
  const certificate = await upload(admin, one)
  const seen: string[] = []
  const { GATEHOUSE_NATS_USER: user = '', GATEHOUSE_NATS_PASSWORD: pass = '' } = installation.nats.controlPlane
  const sniffer = await connect({ servers: installation.nats.url, user, pass })
  sniffer.subscribe('>', { callback: (_, message) => void seen.push(message.string()) })
  await hold(admin, 'secret.test', certificate)
  await untilServed('secret.test', certificate.serial_number)
  await sniffer.close()
  const traffic = seen.join('\n')
  assert.ok(traffic.includes(certificate.id), 'the record was not seen')
  const records = await readFile(join(edge.folder, 'records.log'), 'latin1').catch(() => '')
  const logs = JSON.stringify([edge.log, installation.processes.map(({ log }) => log)])
  for (const line of secretLines(one.private_key_pem)) {
    for (const [place, text] of Object.entries({ traffic, records, logs }))
      assert.ok(!text.includes(line) && !text.includes(JSON.stringify(line)), place)
  }
  assert.equal((await stat(join(edge.folder, 'node.key'))).mode & 0o777, 0o600)
})

test('a restarted node serves from its disk with NATS cut off, and one with another key gets nothing until the operator accepts it', async () => {
  const before = await servedFor('shop.example')
  assert.ok(before)
  edge.child.kill('SIGKILL')
  edge = await installation.startEdge({ like: edge, cutOff: true, env: { GATEHOUSE_NATS_URL: 'nats://127.0.0.1:9' } })
  assert.equal(await servedFor('shop.example'), before)
  edge.child.kill('SIGTERM')
  await poll(
    async () => edge.child.exitCode ?? edge.child.signalCode,
    (ended) => ended !== null,
  )
  edge = await installation.startEdge({ like: edge })
  assert.equal(await servedFor('shop.example'), before)

  edge.child.kill('SIGTERM')
  await poll(
    async () => edge.child.exitCode ?? edge.child.signalCode,
    (ended) => ended !== null,
  )
  // A disk that was lost, or an attacker who has only the password of the node.
  for (const lost of ['node.key', 'haproxy/tenants', 'haproxy/tenants.list'])
    await rm(join(edge.folder, lost), { recursive: true, force: true })
  edge = await installation.startEdge({ like: edge })
  const [node] = await poll(
    nodes,
    ([known]) => known.certificate_key?.accepted === false && known.certificates?.unusable > 0,
  )
  assert.equal(await servedFor('mall.test'), undefined)
  assert.ok(node.refusals.some(({ reason }: { reason: string }) => /has not been sent the key/.test(reason)))
  const keys = (...args: string[]) =>
    gatehouse(['edge-keys', ...args], {
      GATEHOUSE_DATABASE_URL: installation.databaseUrl,
      GATEHOUSE_SECRETS_KEY_FILE: secretsKeyFile(),
    })
  const listed = await poll(
    () => keys('list'),
    ({ stdout }) => stdout.includes('waiting'),
  )
  assert.match(listed.stdout, /accepted/)
  assert.equal((await keys('accept', 'edge-1', '0'.repeat(32))).code, 1)
  const accepted = await keys('accept', 'edge-1', node.certificate_key.fingerprint)
  assert.equal(accepted.code, 0, accepted.stderr)
  await poll(
    () => servedFor('mall.test'),
    (serial) => serial !== undefined,
  )
  await poll(nodes, ([known]) => known.certificate_key.accepted && known.certificates.unusable === 0)
})
