// Private keys of certificates that accounts upload: searched for in everything that is sent, stored, logged and answered.
import assert from 'node:assert/strict'
import { createPrivateKey } from 'node:crypto'
import { glob, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { jetstreamManager } from '@nats-io/jetstream'
import { connect } from '@nats-io/transport-node'
import { one } from '../../src/db/pool.ts'
import { sql } from '../../src/db/sql.ts'
import { newCertificate } from '../harness/certificates.ts'
import { gatehouse } from '../harness/command.ts'
import { watchDatabase } from '../harness/database_search.ts'
import { startInstallation } from '../harness/edge.ts'
import { poll } from '../harness/poll.ts'
import { formsOf, foundIn } from '../harness/secret_forms.ts'
import { testRun } from '../harness/test_run.ts'

const debug = { GATEHOUSE_LOG_LEVEL: 'debug' }
const installation = await startInstallation({ after }, debug)
const { admin, db, nats } = installation
const answers: string[] = []
const searchDatabase = await watchDatabase(installation.databaseUrl)

/** Everything that passes through NATS from now on. */
const { GATEHOUSE_NATS_USER: user = '', GATEHOUSE_NATS_PASSWORD: pass = '' } = nats.controlPlane
const sniffer = await connect({ servers: nats.url, user, pass })
after(() => sniffer.close())
const traffic: Buffer[] = []
sniffer.subscribe('>', {
  callback: (_, { subject, data }) => void traffic.push(Buffer.from(subject), Buffer.from(data)),
})

const rsa = ['-newkey', 'rsa:2048']
const made = [
  newCertificate(['first.test', '*.first.test']),
  newCertificate(['second.test'], { key: rsa }),
  newCertificate(['first.test', '*.first.test'], { key: rsa }),
]
const [first, second, renewed] = made as [(typeof made)[0], (typeof made)[0], (typeof made)[0]]
const needles = made.flatMap(({ private_key_pem }) => formsOf(private_key_pem))

const edge = await installation.startEdge({ env: debug })
await useCertificates()

/** An upload, a use, a replacement and a deletion; what is refused on the way has the keys in it, too. */
async function useCertificates(): Promise<void> {
  const say = async (...[method, path, body]: Parameters<typeof admin>) => {
    const answer = await admin(method, path, body)
    answers.push(answer.text, JSON.stringify(answer.headers ?? {}))
    return answer
  }
  for (const refused of [
    { certificate_pem: first.private_key_pem, private_key_pem: first.private_key_pem },
    { certificate_pem: second.certificate_pem, private_key_pem: first.private_key_pem },
    { certificate_pem: first.certificate_pem, private_key_pem: [first.private_key_pem] },
    { certificate_pem: first.certificate_pem, private_key_pem: first.private_key_pem.replace('\nM', '\n!') },
    { ...first, description: first.private_key_pem.repeat(2) },
  ])
    assert.equal((await say('POST', '/tls_certificates', refused)).status, 400)
  // The answer repeats the name of an unknown field to its sender; nothing else may.
  const misplaced = await admin('POST', '/tls_certificates', { ...first, [first.private_key_pem]: 'the value' })
  assert.equal(misplaced.status, 400)
  for (const [domain, certificate] of [
    ['first.test', first],
    ['second.test', second],
  ] as const) {
    const { status, body, text } = await say('POST', '/tls_certificates', certificate)
    assert.equal(status, 201, text)
    const { body: reserved } = await say('POST', '/reserved_domains', { domain })
    const assigned = await gatehouse(['domains', 'assign', admin.accountId, domain], {
      GATEHOUSE_DATABASE_URL: installation.databaseUrl,
    })
    assert.equal(assigned.code, 0, assigned.stderr)
    answers.push(assigned.stdout, assigned.stderr)
    assert.equal((await say('PATCH', reserved.uri, { certificate_id: body.id })).status, 200)
    if (certificate === first) assert.equal((await say('PATCH', body.uri, renewed)).status, 200)
  }
  await poll(
    async () => (await foldersWith('haproxy/tenants/*')).filter(({ found }) => found.length > 0),
    (files) => files.length === 3,
  )
  for (const path of ['/tls_certificates', '/reserved_domains', '/audit_events', '/edge_nodes']) await say('GET', path)
  answers.push((await installation.clientFor(admin.token)('GET', '/metrics')).text)
}

async function foldersWith(pattern: string, exclude: readonly string[] = []) {
  const searched: { file: string; found: string[] }[] = []
  for await (const file of glob(pattern, { cwd: edge.folder, withFileTypes: true })) {
    const path = join(file.parentPath, file.name)
    if (!file.isFile() || exclude.some((part) => path.includes(part))) continue
    // The agent writes beside a file and renames: what was listed may be gone.
    const content = await readFile(path).catch((error) => (error.code === 'ENOENT' ? undefined : Promise.reject(error)))
    if (content) searched.push({ file: path, found: foundIn(content, needles) })
  }
  return searched
}

test('the search finds a key in each of its forms', () => {
  for (const { private_key_pem } of made) {
    const key = createPrivateKey(private_key_pem)
    const der = key.export({ type: 'pkcs8', format: 'der' })
    const forms = formsOf(private_key_pem)
    for (const [form, text] of Object.entries({
      pem: private_key_pem,
      json: JSON.stringify({ text: private_key_pem }),
      sec1: key.asymmetricKeyType === 'ec' ? key.export({ type: 'sec1', format: 'pem' }) : private_key_pem,
      der,
      hex: der.toString('hex'),
      base64: `x${Buffer.concat([Buffer.from('{"a":1'), der]).toString('base64')}`,
      base64url: der.toString('base64url'),
      bytes: JSON.stringify(der),
      pemInBase64: Buffer.from(private_key_pem).toString('base64'),
      jwk: JSON.stringify(key.export({ format: 'jwk' })),
    }))
      assert.ok(foundIn(text, forms).length > 0, form)
  }
  assert.deepEqual(foundIn(newCertificate(['other.test']).private_key_pem, needles), [])
})

test('no private key is sent through NATS or stored there', async () => {
  await sniffer.flush()
  assert.ok(Buffer.concat(traffic).includes('certificate.cert_'), 'no record of a certificate was seen')
  assert.deepEqual(foundIn(Buffer.concat(traffic), needles), [])
  const manager = await jetstreamManager(sniffer)
  let messages = 0
  for await (const { config, state } of manager.streams.list()) {
    for (let seq = state.first_seq; seq <= state.last_seq; seq++) {
      const message = await manager.streams.getMessage(config.name, { seq }).catch(() => null)
      if (!message) continue
      messages++
      assert.deepEqual(foundIn(Buffer.from(message.data), needles), [], `${config.name} ${message.subject}`)
    }
  }
  assert.ok(messages > 3, `${messages} messages`)
})

test('no private key is in a dump of the database, in its files, or in its write-ahead log', async (t) => {
  const { found, rows, fileBytes } = await searchDatabase(needles)
  assert.deepEqual(found, [])
  t.diagnostic(`${rows} rows and ${Math.round(fileBytes / 1e6)} MB of files`)
  // What is there is found in all three: a certificate, which is no secret, and a key as it is stored.
  const { private_key } = await one<{ private_key: Buffer }>(db, sql`select private_key from tls_certificates limit 1`)
  const stored = { form: 'encrypted', bytes: private_key.subarray(0, 24) }
  const inRows = { form: 'encrypted, in a row', bytes: Buffer.from(stored.bytes.toString('hex')) }
  const places = (await searchDatabase([stored, inRows])).found.map(({ place }) => place)
  assert.ok(places.includes('tls_certificates'), places.join())
  assert.ok(
    places.some((place) => /^\d+$/.test(place)),
    places.join(),
  )
  assert.ok(
    places.some((place) => /^[\dA-F]{24}$/.test(place)),
    places.join(),
  )
})

test('no private key is in a log or an answer', async () => {
  const logs = await Array.fromAsync(glob('*.log', { cwd: testRun.folder }))
  assert.ok(logs.length >= 2)
  let isSeen = false
  for (const file of logs) {
    const text = await readFile(join(testRun.folder, file))
    isSeen ||= text.includes('tls_certificates.create')
    assert.deepEqual(foundIn(text, needles), [], file)
  }
  assert.ok(isSeen, 'the requests were not logged')
  assert.deepEqual(foundIn(answers.join('\n'), needles), [])
})

test('on a node, private keys are in the files of HAProxy and nowhere else', async () => {
  const kept = await foldersWith('haproxy/tenants/*')
  assert.equal(kept.length, 3)
  for (const { file, found } of kept) assert.ok(found.includes('PEM'), file)
  // The key of the certificate that was replaced is gone.
  const gone = formsOf(first.private_key_pem)
  for (const { file } of kept) assert.deepEqual(foundIn(await readFile(file), gone), [])
  const others = await foldersWith('**/*', ['/haproxy/tenants/', '/certificates/'])
  assert.ok(others.some(({ file }) => file.endsWith('records.log')))
  for (const { file, found } of others) assert.deepEqual(found, [], file)
})
