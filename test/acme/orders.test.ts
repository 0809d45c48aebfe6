// From a reserved domain to a request that trusts the authority's root, through the real control plane, NATS, HAProxy,
// PostgreSQL and Let's Encrypt's test authority.
import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { after, test } from 'node:test'
import { accountKeyOf } from '../../src/acme/account_key.ts'
import { many, maybeOne, one } from '../../src/db/pool.ts'
import { sql } from '../../src/db/sql.ts'
import { dnsNames } from '../../src/kernel/crypto/certificate.ts'
import { createSecretsBox } from '../../src/kernel/crypto/secrets_box.ts'
import { openPrivateKey } from '../../src/resources/tls_certificates/store.ts'
import { watchDatabase } from '../harness/database_search.ts'
import { assertRefused, freshHost } from '../harness/fixtures.ts'
import { poll } from '../harness/poll.ts'
import { formsOf } from '../harness/secret_forms.ts'
import {
  makeDue,
  manage,
  managedPolicy,
  provenDomain,
  read,
  serveNames,
  startAcmeInstallation,
  untilIssued,
  visit,
} from './harness.ts'

const installation = await startAcmeInstallation({ after })
const { admin: alice, db, challenges, pebble, hook } = installation
const mallory = await installation.newAccount()
const root = await pebble.rootOfIssued()
const searchDatabase = await watchDatabase(installation.databaseUrl)

test('from POST /reserved_domains to a request that trusts only the root of the authority', async () => {
  const domain = freshHost()
  const created = await alice('POST', '/reserved_domains', { domain, ...managedPolicy })
  assert.equal(created.status, 201, created.text)
  const { uri, verification } = created.body
  assert.deepEqual(created.body.certificate_management_policy, { authority: 'acme', private_key_type: 'ecdsa' })
  await challenges.setTxt(verification.name, verification.value)
  assert.equal((await alice('POST', `${uri}/verify`, {})).body.verification.status, 'verified')
  await serveNames(alice, [domain, `www.${domain}`])
  const { issued } = await untilIssued(alice, { uri })
  assert.equal(issued.source, 'acme')
  assert.equal(issued.private_key_type, 'ecdsa')
  for (const name of [domain, `www.${domain}`]) {
    const seen = await poll(
      () => visit(installation, name, root).catch((error) => error),
      ({ serial }) => serial !== undefined,
    )
    assert.deepEqual(seen, { status: 200, body: 'hello', serial: issued.serial_number })
  }
  assert.deepEqual(
    dnsNames(new X509Certificate(issued.certificate_pem)).toSorted(),
    [domain, `www.${domain}`].toSorted(),
  )
  assert.equal(await maybeOne(db, sql`select from acme_challenges limit 1`), undefined, 'nothing is left to answer')
  const { body: audit } = await alice('GET', `/audit_events?resource_id=${created.body.id}`)
  const event = audit.audit_events.find(({ operation }: { operation: string }) => operation === 'server.acme.issue')
  assert.equal(event.after.serial_number, issued.serial_number)
})

test('neither the ACME account key nor the keys of certificates are in the database in clear text', async () => {
  const box = createSecretsBox([Buffer.alloc(32, 'a key for tests')])
  const accountKey = await accountKeyOf(db, pebble.directoryUrl, box, () => assert.fail('there is one'))
  const certificates = await many<Parameters<typeof openPrivateKey>[0]>(db, sql`select * from tls_certificates`)
  assert.ok(certificates.length > 0)
  const keys = certificates.map((row) => openPrivateKey(row, box))
  const { found, rows, fileBytes } = await searchDatabase([accountKey, ...keys].flatMap(formsOf))
  assert.deepEqual(found, [])
  assert.ok(rows > 10 && fileBytes > 1e6, `${rows} rows, ${fileBytes} bytes`)
})

test('a wildcard is validated by the hook, which gets the record and nothing of our environment', async () => {
  const rsa = { certificate_management_policy: { private_key_type: 'rsa' } }
  const managed = await manage(installation, alice, (domain) => [`*.${domain}`, `a.${domain}`, domain], rsa)
  const { issued } = await untilIssued(alice, managed)
  const { domain } = managed
  assert.deepEqual(issued.subject_alternative_names.dns_names.toSorted(), [`*.${domain}`, domain])
  assert.equal(issued.private_key_type, 'rsa')
  const seen = await poll(
    () => visit(installation, `anything.${domain}`, root).catch((error) => error),
    ({ serial }) => serial === issued.serial_number,
  )
  assert.equal(seen.status, 200)
  const calls = await readFile(join(dirname(hook), 'calls'), 'utf8')
  assert.match(
    calls,
    new RegExp(`^present _acme-challenge\\.${domain} \\S{43}\\ncleanup _acme-challenge\\.${domain} \\S{43}\\n$`),
  )
  assert.doesNotMatch(await readFile(join(dirname(hook), 'environment'), 'utf8'), /GATEHOUSE|postgres/)
})

test('a name that the authority cannot validate is a clear error; the next attempt waits, and succeeds', async () => {
  const domain = freshHost()
  const reserved = await provenDomain(installation, alice, domain)
  // Nothing listens there.
  await challenges.setAddress(`gone.${domain}`, '127.0.0.77')
  await serveNames(alice, [`gone.${domain}`])
  await alice('PATCH', reserved.uri, managedPolicy)
  const failed = await poll(
    () => read(alice, reserved.uri),
    (body) => body.certificate_management_status.provisioning_job?.error_code,
  )
  const { provisioning_job: job, renews_at } = failed.certificate_management_status
  assert.equal(renews_at, null)
  assert.equal(job.error_code, 'connection')
  assert.match(job.msg, new RegExp(`^gone\\.${domain} was not validated: `))
  assert.ok(Date.parse(job.retries_at) - Date.now() > 3 * 60_000, job.retries_at)
  assert.equal(await maybeOne(db, sql`select from acme_challenges limit 1`), undefined)
  // Asking for it again does not take the authority's patience away.
  await alice('PATCH', reserved.uri, managedPolicy)
  const again = (await read(alice, reserved.uri)).certificate_management_status.provisioning_job
  assert.ok(Date.parse(again.retries_at) - Date.now() > 20_000, again.retries_at)
  await challenges.clearAddress(`gone.${domain}`)
  await makeDue(installation, reserved)
  await untilIssued(alice, reserved)
  const { body: audit } = await alice('GET', `/audit_events?resource_id=${reserved.id}`)
  const operations = audit.audit_events.map(({ operation }: { operation: string }) => operation)
  assert.equal(operations.filter((operation: string) => operation === 'server.acme.fail').length, 1)
})

test('nothing is ordered until the domain is proven and in use, and a new name brings a new certificate', async () => {
  const domain = freshHost()
  const { id, uri, verification } = (await alice('POST', '/reserved_domains', { domain, ...managedPolicy })).body
  const job = async () => (await read(alice, uri)).certificate_management_status.provisioning_job
  await poll(job, (now) => now.error_code === 'unverified')
  await challenges.setTxt(verification.name, verification.value)
  await alice('POST', `${uri}/verify`, {})
  await poll(job, (now) => now.error_code === 'no_hostports')
  await serveNames(alice, [`a.${domain}`])
  const { issued } = await untilIssued(alice, { uri })
  // One more name needs another certificate, which takes the place of the first.
  await makeDue(installation, { id })
  await serveNames(alice, [`b.${domain}`])
  await makeDue(installation, { id })
  const wider = await untilIssued(alice, { uri }, issued.serial_number)
  assert.equal(wider.issued.id, issued.id)
  assert.deepEqual(wider.issued.subject_alternative_names.dns_names.toSorted(), [`a.${domain}`, `b.${domain}`])
})

test('another account obtains, uses and sees nothing under the domain', async () => {
  const managed = await manage(installation, alice)
  const { issued } = await untilIssued(alice, managed)
  for (const uri of [managed.uri, issued.uri]) {
    assert.equal((await mallory('GET', uri)).status, 404)
    assert.equal((await mallory('PATCH', uri, {})).status, 404)
    assert.equal((await mallory('DELETE', uri)).status, 404)
  }
  const { domain } = managed
  // A reservation without a proof, of the domain itself and of one below it, leads to no order.
  for (const wanted of [domain, `below.${domain}`]) {
    const { uri } = (await mallory('POST', '/reserved_domains', { domain: wanted, ...managedPolicy })).body
    assertRefused(
      await mallory('POST', '/edges/https', { hostports: [`x.${wanted}:443`] }),
      409,
      'ERR_HOSTPORT_TAKEN',
      'hostports[0]',
    )
    const { provisioning_job: job } = await poll(
      async () => (await read(mallory, uri)).certificate_management_status,
      (status) => status.provisioning_job.error_code,
    )
    assert.equal(job.error_code, 'unverified')
    assert.ok(!JSON.stringify(job).includes(alice.accountId))
  }
  const theirs = await mallory('POST', '/reserved_domains', { domain: freshHost(), certificate_id: issued.id })
  assertRefused(theirs, 400, 'ERR_INVALID_FIELD', 'certificate_id')
  const { body: audit } = await mallory('GET', '/audit_events?limit=100')
  assert.ok(!JSON.stringify(audit).includes(issued.serial_number))
  const { accounts } = await one<{ accounts: number }>(
    db,
    sql`select count(distinct account_id) as accounts from tls_certificates`,
  )
  assert.equal(accounts, 1, 'mallory has none')
})

test('a managed certificate and one of your own exclude each other', async () => {
  const managed = await manage(installation, alice)
  const { issued } = await untilIssued(alice, managed)
  for (const certificate_id of [issued.id, null])
    assertRefused(await alice('PATCH', managed.uri, { certificate_id }), 400, 'ERR_INVALID_FIELD', 'certificate_id')
  const left = await alice('PATCH', managed.uri, { certificate_management_policy: null })
  assert.equal(left.body.certificate_management_status, null)
  assert.equal(left.body.certificate.id, issued.id, 'what is served stays')
  assert.equal((await alice('PATCH', managed.uri, { certificate_id: null })).body.certificate, null)
})
