import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { allRows } from '../../../test/harness/all_rows.ts'
import { ecKey, newCertificate } from '../../../test/harness/certificates.ts'
import { gatehouse } from '../../../test/harness/command.ts'
import { startControlPlane } from '../../../test/harness/control_plane.ts'
import { poll } from '../../../test/harness/poll.ts'
import { many } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import { type Id, newId, toUuid } from '../../kernel/ids.ts'

const folder = await mkdtemp(join(tmpdir(), 'gatehouse-secrets-'))
after(() => rm(folder, { recursive: true, force: true }))
const [oldKey, newKey] = [randomBytes(32).toString('base64'), randomBytes(32).toString('base64')]
async function keyFile(name: string, mode: number, ...keys: string[]): Promise<string> {
  const file = join(folder, name)
  await writeFile(file, `${keys.join('\n')}\n`, { mode })
  return file
}
const plane = await startControlPlane(
  { after },
  { env: { GATEHOUSE_SECRETS_KEY_FILE: await keyFile('old', 0o600, oldKey) } },
)
const admin = await plane.newAccount()

const root = newCertificate(['Test root'], { isAuthority: true })
const issuer = newCertificate(['Test issuer'], { isAuthority: true, issuer: root })
const good = newCertificate(['shop.example', '*.Shop.example', '192.0.2.1'], {
  issuer,
  extensions: ['keyUsage=critical,digitalSignature,keyEncipherment', 'extendedKeyUsage=serverAuth'],
})

/** Lines of the key's own text, any of which would betray it. */
const secretLines = (pem: string) => pem.split('\n').filter((line) => line.length > 40)

test('an uploaded certificate shows what it is for, and never its private key', async () => {
  const created = await admin('POST', '/tls_certificates', { ...good, description: 'the shop' })
  assert.equal(created.status, 201, created.text)
  const { id, uri, created_at, issued_at, not_before, not_after, serial_number, certificate_pem, status, ...rest } =
    created.body
  assert.equal(status.state, 'up')
  assert.match(id, /^cert_/)
  assert.equal(uri, `https://api.gatehouse.test/tls_certificates/${id}`)
  assert.ok(Date.parse(not_before) <= Date.now() && Date.parse(not_after) > Date.now() + 29 * 86_400_000)
  assert.match(serial_number, /^[0-9a-f]+$/)
  assert.equal(certificate_pem.match(/BEGIN CERTIFICATE/g)?.length, 3)
  assert.deepEqual(rest, {
    description: 'the shop',
    expiry: 'later',
    source: 'uploaded',
    subject_common_name: 'shop.example',
    subject_alternative_names: { dns_names: ['shop.example', '*.shop.example'], ips: ['192.0.2.1'] },
    subject_organization: 'Gatehouse tests',
    subject_organizational_unit: null,
    subject_locality: null,
    subject_province: null,
    subject_country: null,
    issuer_common_name: 'Test issuer',
    key_usages: ['digital-signature', 'key-encipherment'],
    extended_key_usages: ['server-auth'],
    private_key_type: 'ecdsa',
    in_use_by: [],
  })
  for (const text of [created.text, (await admin('GET', uri)).text, (await admin('GET', '/tls_certificates')).text])
    assert.doesNotMatch(text, /private_key_pem|PRIVATE KEY/)
})

test('each fault of a chain or key is named with its field', async () => {
  const weakKey = ['-newkey', 'rsa:1024']
  const faults: [string, object, string, RegExp][] = [
    [
      'another key',
      { ...good, private_key_pem: newCertificate(['a.example']).private_key_pem },
      'private_key_pem',
      /does not belong/,
    ],
    ['no certificate', { ...good, certificate_pem: 'hello' }, 'certificate_pem', /PEM form/],
    [
      'a broken certificate',
      { ...good, certificate_pem: '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----' },
      'certificate_pem',
      /number 1 is not a certificate/,
    ],
    ['the wrong order', { ...good, certificate_pem: reversed(good.certificate_pem) }, 'certificate_pem', /wrong order/],
    [
      'a stranger in the chain',
      { ...good, certificate_pem: good.certificate_pem.split(/(?<=END CERTIFICATE-----\n)/)[0] + root.certificate_pem },
      'certificate_pem',
      /number 2 did not issue number 1/,
    ],
    ['an expired one', newCertificate(['a.example'], { days: -1 }), 'certificate_pem', /expired on/],
    ['a weak key', newCertificate(['a.example'], { key: weakKey }), 'private_key_pem', /2048 to 4096 bits/],
    ['another kind of key', newCertificate(['a.example'], { key: ['-newkey', 'ed25519'] }), 'private_key_pem', /P-256/],
    ['no name', newCertificate([]), 'certificate_pem', /no DNS name/],
    [
      'the key among the certificates',
      { ...good, certificate_pem: good.certificate_pem + good.private_key_pem },
      'certificate_pem',
      /contains a private key/,
    ],
    ['no key', { ...good, private_key_pem: 'hello' }, 'private_key_pem', /unencrypted private key/],
    [
      'a chain that is too long',
      { ...good, certificate_pem: good.certificate_pem.padEnd(20_000) },
      'certificate_pem',
      /16384 bytes/,
    ],
    [
      'too many certificates',
      { ...good, certificate_pem: root.certificate_pem.repeat(11) },
      'certificate_pem',
      /at most 10/,
    ],
  ]
  for (const [what, body, field, message] of faults) {
    const refused = await admin('POST', '/tls_certificates', body)
    assert.equal(refused.status, 400, `${what}: ${refused.text}`)
    assert.equal(refused.body.details.field, field, what)
    assert.match(refused.body.msg, message, what)
    for (const line of secretLines(good.private_key_pem)) assert.ok(!refused.text.includes(line), what)
  }
})

const reversed = (chain: string) =>
  chain
    .split(/(?<=END CERTIFICATE-----\n)/)
    .reverse()
    .join('')

test('a self-signed certificate and RSA keys are accepted', async () => {
  const created = await admin(
    'POST',
    '/tls_certificates',
    newCertificate(['a.example'], { key: ['-newkey', 'rsa:2048'] }),
  )
  assert.equal(created.status, 201, created.text)
  assert.equal(created.body.private_key_type, 'rsa')
})

test('chain and key are replaced together, under the same id', async () => {
  const { body: before } = await admin('POST', '/tls_certificates', good)
  const renewed = newCertificate(['shop.example'], { key: ecKey })
  for (const [half, missing] of [
    ['certificate_pem', 'private_key_pem'],
    ['private_key_pem', 'certificate_pem'],
  ] as const) {
    const refused = await admin('PATCH', before.uri, { [half]: renewed[half] })
    assert.equal(refused.status, 400)
    assert.equal(refused.body.details.field, missing)
  }
  const mixed = await admin('PATCH', before.uri, { ...renewed, private_key_pem: good.private_key_pem })
  assert.equal(mixed.status, 400)
  assert.deepEqual((await admin('GET', before.uri)).body, before)
  const replaced = await admin('PATCH', before.uri, { ...renewed, metadata: 'renewed' })
  assert.equal(replaced.status, 200, replaced.text)
  assert.equal(replaced.body.id, before.id)
  assert.notEqual(replaced.body.serial_number, before.serial_number)
  assert.equal(replaced.body.metadata, 'renewed')
  assert.equal((await admin('DELETE', before.uri)).status, 204)
})

test('a certificate is replaced only by one for the domains that use it', async () => {
  const { body: certificate } = await admin('POST', '/tls_certificates', good)
  const { status, body: domain } = await admin('POST', '/reserved_domains', {
    domain: 'shop.example',
    certificate_id: certificate.id,
  })
  assert.equal(status, 201)
  assert.equal(domain.certificate.id, certificate.id)
  const refused = await admin('PATCH', certificate.uri, newCertificate(['elsewhere.example', 'the-shop.example']))
  assert.equal(refused.status, 400)
  assert.equal(refused.body.details.field, 'certificate_pem')
  assert.match(refused.body.msg, /no name of shop\.example/)
  const { body: kept } = await admin('GET', certificate.uri)
  assert.equal(kept.serial_number, certificate.serial_number)
  const accepted = await admin('PATCH', certificate.uri, newCertificate(['www.shop.example']))
  assert.equal(accepted.status, 200, accepted.text)
  assert.equal((await admin('PATCH', domain.uri, { certificate_id: null })).status, 200)
  assert.equal((await admin('PATCH', certificate.uri, newCertificate(['elsewhere.example']))).status, 200)
})

test('a new domain takes a certificate of its own account that is for it, and nothing else', async () => {
  const other = await plane.newAccount()
  const { body: foreign } = await other('POST', '/tls_certificates', newCertificate(['own.example']))
  const { body: unfit } = await admin('POST', '/tls_certificates', newCertificate(['else.example']))
  const absent = { id: newId('cert') }
  const answers = []
  for (const { id } of [foreign, absent, unfit]) {
    const refused = await admin('POST', '/reserved_domains', { domain: 'own.example', certificate_id: id })
    assert.equal(refused.status, 400, refused.text)
    assert.equal(refused.body.details.field, 'certificate_id')
    answers.push(refused.body.msg)
  }
  assert.equal(answers[0], answers[1])
  const { body: list } = await admin('GET', '/reserved_domains')
  assert.ok(!list.reserved_domains.some(({ domain }: { domain: string }) => domain === 'own.example'))
})

test('the list says which certificates expire soon, and time alone changes no ETag', async () => {
  const expiries = []
  for (const days of [13, 15, 1]) {
    const { body, headers } = await admin('POST', '/tls_certificates', newCertificate(['time.example'], { days }))
    const { body: shown } = await admin('GET', body.uri)
    expiries.push([days, shown.expiry])
    if (days !== 13) continue
    await plane.db.query({
      text: `update tls_certificates set not_after = now() - interval '1 hour' where id = $1`,
      values: [toUuid(body.id)],
    })
    const { body: list } = await admin('GET', '/tls_certificates')
    assert.equal(list.tls_certificates[0].expiry, 'expired')
    assert.ok(headers.get('etag'))
  }
  // A lifetime of 13 days: there is more than a third of it left.
  assert.deepEqual(expiries, [
    [13, 'later'],
    [15, 'later'],
    [1, 'later'],
  ])
  const { body: long } = await admin('POST', '/tls_certificates', newCertificate(['time.example'], { days: 60 }))
  await plane.db.query({
    text: `update tls_certificates set not_before = now() - interval '60 days', not_after = now() + interval '13 days' where id = $1`,
    values: [toUuid(long.id)],
  })
  assert.equal((await admin('GET', long.uri)).body.expiry, 'soon')
})

test('an account has a limit of certificates and of domains, even when many come at once', async () => {
  const { origin } = await plane.startProcess({
    GATEHOUSE_SECRETS_KEY_FILE: await keyFile('limited', 0o600, oldKey),
    GATEHOUSE_CERTIFICATES_PER_ACCOUNT: '3',
    GATEHOUSE_DOMAINS_PER_ACCOUNT: '3',
  })
  const account = await plane.newAccount()
  const post = async (path: string, body: object) => {
    const answer = await fetch(origin + path, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${account.token}`,
        'service-version': '2',
        'content-type': 'application/json',
      },
      body: JSON.stringify(body),
    })
    return { status: answer.status, body: (await answer.json()) as { error_code?: string; msg?: string } }
  }
  for (const [path, bodyOf, called] of [
    ['/tls_certificates', () => good, /is 3 uploaded certificates/],
    ['/reserved_domains', (index: number) => ({ domain: `limit-${index}.example` }), /is 3 reserved domains/],
  ] as const) {
    const answers = await Promise.all(Array.from({ length: 6 }, (_, index) => post(path, bodyOf(index))))
    assert.equal(answers.filter(({ status }) => status === 201).length, 3, path)
    for (const { status, body } of answers.filter(({ status }) => status !== 201)) {
      assert.equal(status, 409)
      assert.equal(body.error_code, 'ERR_QUOTA')
      assert.match(body.msg ?? '', called)
    }
  }
  // Another account is not concerned.
  assert.equal((await admin('POST', '/reserved_domains', { domain: 'unlimited.example' })).status, 201)
})

test('a private key is never in clear text in a row, the log or the audit', async () => {
  const one = newCertificate(['secret.example'])
  const created = await admin('POST', '/tls_certificates', one, { headers: { 'idempotency-key': 'the-secret-one' } })
  assert.equal(created.status, 201)
  await admin('PATCH', created.body.uri, newCertificate(['secret.example']))
  await admin('POST', '/tls_certificates', { ...one, certificate_pem: 'wrong' })
  const log = JSON.stringify(plane.processes.flatMap((process) => process.log))
  assert.ok(log.includes('tls_certificates.create'))
  const found = await allRows(plane.db)
  assert.ok(found.includes('secret.example'))
  for (const line of secretLines(one.private_key_pem)) {
    assert.ok(!found.includes(line), 'a row has the key')
    // bytea is printed in hexadecimal.
    assert.ok(!found.includes(Buffer.from(line).toString('hex')), 'a row has the bytes of the key')
    assert.ok(!log.includes(line), 'the log has the key')
  }
})

test('a rotation encrypts every private key with the new key, and says what it cannot read', async () => {
  const { body: created } = await admin('POST', '/tls_certificates', good)
  const run = async (verb: string, file: string) =>
    gatehouse(['secrets', verb], { GATEHOUSE_DATABASE_URL: plane.databaseUrl, GATEHOUSE_SECRETS_KEY_FILE: file })
  const both = await keyFile('both', 0o600, newKey, oldKey)
  const onlyNew = await keyFile('new', 0o600, newKey)
  const without = await run('rotate', onlyNew)
  assert.equal(without.code, 1)
  assert.match(without.stderr, /cannot be read: it is encrypted with the key [0-9a-f]{16}, which is not in/)
  const [{ count } = { count: 0 }] = await many<{ count: number }>(plane.db, sql`select count(*) from tls_certificates`)
  const rotated = await run('rotate', both)
  assert.equal(rotated.code, 0, rotated.stderr)
  assert.deepEqual(Object.values(JSON.parse(rotated.stdout)).slice(1), [count, 0])
  assert.equal(JSON.parse((await run('rotate', both)).stdout).encrypted, 0)
  const listed = await run('list', both)
  assert.match(
    listed.stdout,
    new RegExp(
      `encrypts private keys: ${count}, webhook secrets: 0, .*  current\n[0-9a-f]{16}  encrypts private keys: 0, webhook secrets: 0, .*\n`,
    ),
  )

  // Moving a row to another account does not move its key.
  const other = await plane.newAccount()
  await plane.db.query({
    text: `update tls_certificates set account_id = $1, secrets_key_id = $3 where id = $2`,
    values: [toUuid(other.accountId as Id<'ac'>), toUuid(created.id), '0'.repeat(16)],
  })
  await plane.db.query({
    text: `update tls_certificates set secrets_key_id = (select secrets_key_id from tls_certificates where id <> $1 limit 1) where id = $1`,
    values: [toUuid(created.id)],
  })
  const moved = await run('rotate', await keyFile('again', 0o600, randomBytes(32).toString('base64'), newKey))
  assert.equal(moved.code, 1)
  assert.match(moved.stderr, new RegExp(`${created.id} cannot be read: it was changed, or moved`))
})

test('without a key file everything but private keys works, and a bad one is refused with its reason', async () => {
  const bare = await plane.startProcess({ GATEHOUSE_SECRETS_KEY_FILE: '' })
  const call = (method: string, path: string, body?: object) =>
    fetch(bare.origin + path, {
      method,
      headers: {
        authorization: `Bearer ${admin.token}`,
        'service-version': '2',
        ...(body && { 'content-type': 'application/json' }),
      },
      ...(body && { body: JSON.stringify(body) }),
    })
  assert.equal((await call('GET', '/tls_certificates')).status, 200)
  const refused = await call('POST', '/tls_certificates', good)
  assert.equal(refused.status, 409)
  assert.equal(((await refused.json()) as { error_code: string }).error_code, 'ERR_NO_SECRETS_KEY')
  assert.ok(bare.log.some(({ level, msg }) => level === 'error' && /the key that encrypts them is not in/.test(msg)))

  for (const [file, message] of [
    [join(folder, 'missing'), /cannot be read/],
    [await keyFile('open', 0o644, oldKey), /everyone on this machine can read or write/],
    [await keyFile('half', 0o600, oldKey.slice(0, 20)), /line 1 is not a key/],
  ] as const) {
    const { code, stderr } = await gatehouse(['serve'], {
      GATEHOUSE_DATABASE_URL: plane.databaseUrl,
      GATEHOUSE_SECRETS_KEY_FILE: file,
    })
    assert.equal(code, 2)
    assert.match(stderr, message)
    assert.ok(!stderr.includes(oldKey.slice(0, 20)))
  }
})

test('metrics name the certificates that expire first, and when', async () => {
  const { accountId } = await plane.newAccount()
  const account = await plane.newAccount()
  const { body } = await account('POST', '/tls_certificates', newCertificate(['metrics.example'], { issuer }))
  const { origin } = await plane.startProcess()
  const line = `gatehouse_certificate_expiry_timestamp_seconds{account="${account.accountId}",certificate="${body.id}"} `
  const text = await poll(
    async () => (await fetch(`${origin}/metrics`)).text(),
    (found) => found.includes(line),
  )
  assert.ok(text.includes(`${line}${Date.parse(body.not_after) / 1_000}\n`))
  assert.ok(!text.includes(accountId), 'an account without certificates')
})
