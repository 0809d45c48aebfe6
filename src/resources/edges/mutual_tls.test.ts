import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { newCertificate } from '../../../test/harness/certificates.ts'
import { clientAuthority1, clientAuthority2, mutualTlsSample } from '../../../test/harness/client_authorities.ts'
import { authority, authorityExtensions, issue } from '../../../test/harness/client_pki.ts'
import { make } from '../../../test/harness/fixtures.ts'
import { sharedControlPlane } from '../../../test/harness/shared_control_plane.ts'
import { many } from '../../db/pool.ts'
import { sql } from '../../db/sql.ts'
import type { RecordKey } from '../../distribution/records.ts'
import { recordFault } from '../../distribution/validate.ts'
import { toUuid } from '../../kernel/ids.ts'
import { defaultCell } from '../../operations/placement.ts'
import { compileRecords } from '../../publisher/records/compile.ts'

const plane = await sharedControlPlane({ after })
const admin = await plane.newAccount()
const accountId = admin.accountId
const edge = await make(admin, '/edges/https', { hostports: ['mutual.example:443'] })
const path = `/edges/https/${edge.id}/mutual_tls`

test('what is read back is what was written, with what it says', async () => {
  for (const body of [mutualTlsSample.least, mutualTlsSample.whole]) {
    const { status, body: shown } = await admin('PUT', path, body)
    const expected = { enabled: true, ...mutualTlsSample.shownOf(body) }
    assert.deepEqual([status, shown], [200, expected])
    assert.deepEqual((await admin('GET', path)).body, expected)
    assert.deepEqual((await admin('GET', `/edges/https/${edge.id}`)).body.mutual_tls, expected)
    // An edited copy of a response is a request.
    assert.equal((await admin('PUT', path, shown)).status, 200)
  }
  assert.match((await admin('GET', path)).body.authorities[0].subject, /^O=Gatehouse tests,CN=Clients 2$/)
})

test('certificates that could let no one in, or the wrong clients, are refused with the field', async () => {
  const root = authority('/CN=Root')
  const second = authority('/CN=Second', { issuer: root })
  const { certificate_pem: leaf, private_key_pem } = newCertificate(['leaf.example'])
  const rsa = (bits: number) => ({ key: ['-newkey', `rsa:${bits}`] })
  const many11 = Array.from({ length: 11 }, (_, number) => authority(`/CN=Number ${number}`).pem)
  const long = Array.from({ length: 5 }, (_, number) =>
    authority(`/CN=${number}${'x'.repeat(60)}`, {
      ...rsa(2_048),
      extensions: [...authorityExtensions, `nsComment=${'long '.repeat(800)}`],
    }),
  )
  const faults: [certificate_authorities: unknown, field: string, msg: RegExp][] = [
    [[], 'certificate_authorities', /./],
    ['', 'certificate_authorities', /./],
    [[''], 'certificate_authorities[0]', /./],
    [[null], 'certificate_authorities[0]', /./],
    [['nonsense'], 'certificate_authorities[0]', /must be a certificate in PEM form/],
    [[clientAuthority1, 'nonsense'], 'certificate_authorities[1]', /must be a certificate in PEM form/],
    [[clientAuthority1.replaceAll(/[A-Z]/g, 'A')], 'certificate_authorities[0]', /must be a certificate in PEM form/],
    [[clientAuthority1.replace(/MII/, 'AAA')], 'certificate_authorities[0]', /cannot be read as a certificate/],
    [[clientAuthority1.replace(/\n[^\n]+\n-----END/, '\n-----END')], 'certificate_authorities[0]', /cannot be read/],
    [[clientAuthority1 + clientAuthority2], 'certificate_authorities[0]', /must be one certificate/],
    [[clientAuthority1 + private_key_pem], 'certificate_authorities[0]', /contains a private key/],
    [[private_key_pem], 'certificate_authorities[0]', /contains a private key/],
    [[clientAuthority1, clientAuthority1], 'certificate_authorities[1]', /repeats number 1/],
    [[leaf], 'certificate_authorities[0]', /not the certificate of an authority/],
    [[issue().pem], 'certificate_authorities[0]', /not the certificate of an authority/],
    [
      [
        authority('/CN=No', { extensions: ['basicConstraints=critical,CA:TRUE', 'keyUsage=critical,digitalSignature'] })
          .pem,
      ],
      'certificate_authorities[0]',
      /not the certificate of an authority/,
    ],
    [[authority('/CN=Old', { from: -20, to: -1 }).pem], 'certificate_authorities[0]', /expired on/],
    [[authority('/CN=Soon', { from: 1, to: 20 }).pem], 'certificate_authorities[0]', /not valid before/],
    [[authority('/CN=Weak', rsa(1_024)).pem], 'certificate_authorities[0]', /1024 bits/],
    [[root.pem, authority('/CN=Sha1', { issuer: root, digest: 'sha1' }).pem], 'certificate_authorities[1]', /too weak/],
    [[second.pem], 'certificate_authorities[0]', /issued by an authority that is not in the list/],
    [[clientAuthority1, second.pem], 'certificate_authorities[1]', /issued by an authority that is not in the list/],
    [many11, 'certificate_authorities', /10/],
    [[`${'#'.repeat(8_192)}\n${clientAuthority1}`], 'certificate_authorities[0]', /8192|8,192/],
    [long.map(({ pem }) => pem), 'certificate_authorities', /20000 bytes/],
  ]
  const before = (await admin('GET', path)).body
  for (const [certificate_authorities, field, msg] of faults) {
    for (const [method, at, body, prefix] of [
      ['PUT', path, { certificate_authorities }, ''],
      ['PATCH', `/edges/https/${edge.id}`, { mutual_tls: { certificate_authorities } }, 'mutual_tls.'],
    ] as const) {
      const { status, body: answer } = await admin(method, at, body)
      assert.deepEqual([status, answer.details?.field], [400, prefix + field], `${field} ${answer.msg}`)
      assert.match(answer.msg, msg)
      assert.doesNotMatch(JSON.stringify(answer), /BEGIN|PRIVATE KEY-/)
    }
  }
  const wrongMode = await admin('PUT', path, { ...mutualTlsSample.least, mode: 'warn' })
  assert.deepEqual([wrongMode.status, wrongMode.body.details.field], [400, 'mode'])
  assert.deepEqual((await admin('GET', path)).body, before)
  assert.equal((await admin('PUT', path, { certificate_authorities: [second.pem, root.pem] })).status, 200)
})

const compiled = async (): Promise<Record<string, unknown>> => {
  const keys: RecordKey[] = [`https.${edge.id}`, `mutual_tls.${edge.id}`] as RecordKey[]
  const records = await compileRecords(
    plane.db,
    defaultCell,
    keys.map((key) => ({ key, accountId: toAccount() })),
    Date.now(),
  )
  return Object.fromEntries(records.map(({ key, value }) => [key.split('.')[0], value]))
}
const toAccount = () => toUuid(accountId as `ac_${string}`)

test('an agent that knows nothing of it learns that the edge is gone', async () => {
  const changedKeys = async () => {
    const rows = await many<{ key: string }>(
      plane.db,
      sql`select key from outbox where account_id = ${toAccount()} and generation = (
        select max(generation) from outbox where account_id = ${toAccount()})`,
    )
    return rows.map(({ key }) => key).sort()
  }
  const both = [`https.${edge.id}`, `mutual_tls.${edge.id}`]
  await admin('PUT', path, mutualTlsSample.least)
  assert.deepEqual(await changedKeys(), both)
  const on = await compiled()
  assert.deepEqual(on, {
    https: null,
    mutual_tls: { account: accountId, hostports: ['mutual.example:443'], ...mutualTlsSample.record },
  })
  assert.equal(recordFault({ key: both[1], generation: 1, value: on.mutual_tls }), undefined)
  await admin('PUT', path, { ...mutualTlsSample.least, enabled: false })
  const off = { https: { hostports: ['mutual.example:443'] }, mutual_tls: null }
  assert.deepEqual([await compiled(), await changedKeys()], [off, both])
  await admin('PUT', path, mutualTlsSample.least)
  await admin('DELETE', path)
  assert.deepEqual([await compiled(), await changedKeys()], [off, both])
  // Edges without it say nothing of it.
  await admin('PATCH', `/edges/https/${edge.id}`, { hostports: ['other.mutual.example:443'] })
  assert.deepEqual(await changedKeys(), [`https.${edge.id}`])
})
