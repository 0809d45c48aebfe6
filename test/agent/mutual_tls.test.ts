import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { after, test } from 'node:test'
import type { Difference } from '../../src/agent/haproxy/comparison/difference.ts'
import { ask } from '../../src/agent/haproxy/process/runtime.ts'
import { authorityFolder } from '../../src/agent/haproxy/settings.ts'
import type { MutualTlsRecord, RecordKey } from '../../src/distribution/records.ts'
import {
  authority,
  authorityExtensions,
  clientExtensions,
  type Issued,
  issue,
  tampered,
} from '../harness/client_pki.ts'
import { poll } from '../harness/poll.ts'
import { startHttpUpstream } from './http_harness.ts'
import { Client, mutualRecord, putMutual, startMutualEdge, visit } from './mutual_harness.ts'
import { id } from './proxy_harness.ts'

const root = authority('/O=Tests/CN=Clients')
const other = authority('/O=Tests/CN=Others')
const alice = issue({ subject: '/O=Tests/CN=client alice', issuer: root })
const mallory = issue({ subject: '/O=Tests/CN=client mallory', issuer: other })

const certificates = ['app.example.com', 'other.example.com', 'plain.example.com', '*.wild.example.com']
const edge = await startMutualEdge({ after }, { certificates })
const upstream = await startHttpUpstream({ after })
const host = 'app.example.com'
const app = { host, port: upstream.port }

const rsa = (bits: number) => ['-newkey', `rsa:${bits}`]
const signedBy = (issuer: Issued, more: Parameters<typeof issue>[0] = {}) =>
  issue({ subject: '/O=Tests/CN=client bad', issuer, ...more })
const usage = (...names: string[]) => ({
  extensions: ['basicConstraints=CA:FALSE', `extendedKeyUsage=${names.join(',')}`],
})

/** Certificates that must not get anyone in, with the reason that the line of the request gives. */
function badClients(): Record<string, Issued> {
  const namesake = authority('/O=Tests/CN=Clients')
  const intermediate = (more: Parameters<typeof issue>[0] = {}) =>
    authority('/O=Tests/CN=Intermediate', { issuer: root, ...more })
  const limited = intermediate({ extensions: ['basicConstraints=critical,CA:TRUE,pathlen:0', 'keyUsage=keyCertSign'] })
  const below = authority('/O=Tests/CN=Below', { issuer: limited })
  const good = intermediate()
  return {
    expired: signedBy(root, { from: -20, to: -1 }),
    'expired a moment ago': signedBy(root, { from: -20, to: -0.0005 }),
    'not valid yet': signedBy(root, { from: 1, to: 20 }),
    'of another authority': signedBy(other),
    'of an authority of the same name': signedBy(namesake),
    'for servers only': signedBy(root, usage('serverAuth')),
    'for code only': signedBy(root, usage('codeSigning')),
    'for mail and time stamps only': signedBy(root, usage('emailProtection', 'timeStamping')),
    'for servers only, in the words of Netscape': signedBy(root, { extensions: ['nsCertType=server'] }),
    'self-signed': issue({ subject: '/CN=client' }),
    "self-signed, with the authority's name": issue({ subject: '/O=Tests/CN=Clients' }),
    'an authority that signed itself': namesake,
    'the authority itself': root,
    'of a client': signedBy(alice),
    'of a certificate that says nothing of authority': signedBy(
      issue({ issuer: root, extensions: ['subjectKeyIdentifier=hash'] }),
    ),
    'of an intermediate that may not sign certificates': signedBy(
      intermediate({ extensions: ['basicConstraints=critical,CA:TRUE', 'keyUsage=critical,digitalSignature'] }),
    ),
    'of an expired intermediate': signedBy(intermediate({ from: -20, to: -1 })),
    'of an intermediate that is not valid yet': signedBy(intermediate({ from: 1, to: 20 })),
    'of an intermediate for servers': signedBy(
      intermediate({ extensions: [...authorityExtensions, 'extendedKeyUsage=serverAuth'] }),
    ),
    'of an intermediate of another authority': signedBy(authority('/O=Tests/CN=Intermediate', { issuer: other })),
    'of an intermediate of a namesake': signedBy(authority('/O=Tests/CN=Intermediate', { issuer: namesake })),
    'with a longer chain than an intermediate allows': signedBy(below),
    'without its intermediate': { ...signedBy(good), chain: '' },
    'with an intermediate of the same name and another key': { ...signedBy(good), chain: intermediate().pem },
    'with a name that its intermediate may not give': signedBy(
      intermediate({ extensions: [...authorityExtensions, 'nameConstraints=critical,permitted;DNS:.good.example'] }),
      { extensions: [...clientExtensions, 'subjectAltName=DNS:bad.example'] },
    ),
    'with a critical extension that is not known': signedBy(root, {
      extensions: [...clientExtensions, '1.2.3.4.5=critical,ASN1:UTF8String:what'],
    }),
    'that may sign lists and nothing else': signedBy(root, { extensions: ['keyUsage=critical,cRLSign'] }),
    'signed with SHA-1': signedBy(root, { digest: 'sha1' }),
    'with an RSA key of 1,024 bits': signedBy(root, { key: rsa(1_024) }),
    'of an intermediate signed with SHA-1': signedBy(intermediate({ digest: 'sha1' })),
    'of an intermediate with an RSA key of 1,024 bits': signedBy(intermediate({ key: rsa(1_024) })),
    'with another name than was signed': tampered(signedBy(root), 'front'),
    'with another signature': tampered(signedBy(root), 'end'),
  }
}

for (const mode of ['required', 'optional'] as const)
  test(`${mode}: of more than 30 bad certificates none is accepted`, async () => {
    const https = id('edghts')
    await putMutual(edge, { host: 'app.example.com', authorities: [root], port: upstream.port, mode, https })
    const [had, seen] = [upstream.heads.length, edge.lines.length]
    const bad = Object.entries(badClients())
    assert.ok(bad.length > 30)
    const accepted: string[] = []
    for (const [name, client] of bad)
      for (const tls of ['TLSv1.2', 'TLSv1.3'] as const) {
        const { status } = await visit(edge, { client, tls })
        if (status !== 0) accepted.push(`${name} over ${tls}: ${status}`)
      }
    assert.deepEqual(accepted, [])
    assert.equal(upstream.heads.length, had)
    // Each leaves a line that says why, for the account whose edge it is.
    await poll(() => edge.lines.length >= seen + 2 * bad.length)
    const reasons = edge.lines.slice(seen).map(({ request }) => `${request.outcome} ${request.reason} ${request.edge}`)
    const count = (reason: string) => reasons.filter((each) => each === `refused ${reason} ${https}`).length
    assert.equal(count('client_certificate_expired') + count('client_certificate_untrusted'), 2 * bad.length)
    assert.equal(count('client_certificate_expired'), 2 * 5)
    await edge.apply({ [`mutual_tls.${https}`]: null })
    assert.equal((await visit(edge, { client: alice })).status, 404)
  })

/** Many servers read `_` in a name as `-`, and some read any other character as one. */
const forged = () =>
  ['Verification: verified', 'Subject: CN=root', 'Sha256: 00', 'New: 1']
    .map((line) => `X-Client-Certificate-${line}`)
    .flatMap((line) => {
      const name = line.slice(0, line.indexOf(':'))
      const spellings = ['-', '_', '.', '~'].flatMap((other) => [
        name.replaceAll('-', other),
        name.replace('-', other),
        name.replace(/-(?=[^-]*$)/, other),
      ])
      return [...new Set([...spellings, name.replaceAll('-', '_').toUpperCase()])].map(
        (each) => each + line.slice(name.length),
      )
    })

test('a good certificate gets in, and the upstream learns whose it is', async () => {
  const { https } = await putMutual(edge, { host: 'app.example.com', authorities: [root], port: upstream.port })
  const intermediate = authority('/O=Tests/CN=Intermediate', { issuer: root })
  for (const client of [alice, issue({ subject: '/O=Tests/CN=client alice', issuer: intermediate })])
    for (const tls of ['TLSv1.2', 'TLSv1.3'] as const) {
      const { status } = await visit(edge, {
        client,
        tls,
        headers: [...forged(), 'Connection: X-Client-Certificate-Subject'],
      })
      assert.equal(status, 200)
      assert.deepEqual(
        upstream.lastHeaders().filter(([name]) => /^x.client/i.test(name)),
        [
          ['x-client-certificate-verification', 'verified'],
          ['x-client-certificate-subject', 'O=Tests,CN=client alice'],
          [
            'x-client-certificate-sha256',
            new X509Certificate(client.pem).fingerprint256.replaceAll(':', '').toLowerCase(),
          ],
        ],
      )
    }
  const missing = await visit(edge, { tls: 'TLSv1.3' })
  assert.equal(missing.status, 0)
  await poll(() =>
    edge.lines.some(({ request }) => request.edge === https && request.reason === 'client_certificate_missing'),
  )
  await edge.apply({ [`mutual_tls.${https}`]: null })
})

test('optional: without a certificate the upstream learns that there is none', async () => {
  const { https } = await putMutual(edge, {
    ...{ host: 'app.example.com', authorities: [root], port: upstream.port, mode: 'optional' },
  })
  const ofClient = () => upstream.lastHeaders().filter(([name]) => /^x.client/i.test(name))
  assert.equal((await visit(edge, { headers: forged() })).status, 200)
  assert.deepEqual(ofClient(), [['x-client-certificate-verification', 'none']])
  assert.equal((await visit(edge, { client: alice })).status, 200)
  assert.equal(ofClient().length, 3)
  assert.equal((await visit(edge, { client: mallory })).status, 0)
  await edge.apply({ [`mutual_tls.${https}`]: null })
})

test('where nothing is asked, clients can say nothing of a certificate either', async () => {
  const { https, account } = await putMutual(edge, {
    host: 'app.example.com',
    authorities: [root],
    port: upstream.port,
  })
  await edge.apply({ [`mutual_tls.${https}`]: null, [`https.${https}`]: { hostports: ['app.example.com:443'] } })
  // Each alone too: a header that is taken out must not be what hides another.
  for (const headers of [forged(), ...forged().map((header) => [header])]) {
    assert.equal((await visit(edge, { headers })).status, 200)
    assert.deepEqual(
      upstream.lastHeaders().filter(([name]) => /^x.client/i.test(name)),
      [],
    )
  }
  await edge.apply({ [`https.${https}`]: null })
  assert.ok(account)
})

test('two edges of two accounts with different authorities do not mix, not by resumption and not on one connection', async () => {
  const one = await putMutual(edge, { host: 'app.example.com', authorities: [root], port: upstream.port })
  const two = await putMutual(edge, { host: 'other.example.com', authorities: [other], port: upstream.port })
  const plain = id('edghts')
  const route = id('edghtsrt')
  const backend = [...edge.known.keys()].find((key) => key.startsWith('backend.'))?.slice('backend.'.length)
  await edge.apply({
    [`https.${plain}`]: { hostports: ['plain.example.com:443'] },
    [`route.${route}`]: {
      ...{
        account: one.account,
        edge: plain,
        match_type: 'path_prefix',
        match: '/',
        backend,
        policies: null,
        headers: null,
      },
    },
  })
  const had = upstream.heads.length
  let served = 0
  for (const tls of ['TLSv1.2', 'TLSv1.3'] as const) {
    const ofAlice = await visit(edge, { client: alice, tls })
    const ofMallory = await visit(edge, { servername: 'other.example.com', client: mallory, tls })
    const withoutOne = await visit(edge, { servername: 'plain.example.com', tls })
    assert.deepEqual(
      [ofAlice, ofMallory, withoutOne].map(({ status }) => status),
      [200, 200, 200],
    )
    served += 3
    // The same name, as browsers do: resumed, and served.
    const again = await visit(edge, { tls, session: ofAlice.session, client: alice })
    assert.deepEqual([again.status, again.isReused], [200, true])
    served++
    for (const { session } of [ofMallory, withoutOne])
      for (const client of [undefined, mallory]) assert.equal((await visit(edge, { tls, session, client })).status, 0)
    const elsewhere = await visit(edge, {
      servername: 'other.example.com',
      tls,
      session: ofAlice.session,
      client: alice,
    })
    assert.equal(elsewhere.status, 0)
    // Another host on the connection of one name, in all directions.
    const names = { 'app.example.com': alice, 'other.example.com': mallory, 'plain.example.com': undefined }
    for (const [servername, client] of Object.entries(names))
      for (const host of Object.keys(names)) {
        if (host === servername) continue
        assert.equal((await visit(edge, { servername, host, client, tls })).status, 421, `${host} over ${servername}`)
      }
  }
  assert.equal(upstream.heads.length, had + served)
  await edge.apply({ [`mutual_tls.${one.https}`]: null, [`mutual_tls.${two.https}`]: null, [`https.${plain}`]: null })
})

test('other authorities are in force for new connections, resumed sessions and connections that are open', async () => {
  const { https, account } = await putMutual(edge, {
    host: 'app.example.com',
    authorities: [root],
    port: upstream.port,
  })
  for (const tls of ['TLSv1.2', 'TLSv1.3'] as const) {
    const open = new Client(edge, { client: alice, tls })
    assert.equal((await open.get()).status, 200)
    const { session } = await visit(edge, { client: alice, tls })
    await edge.apply({
      [`mutual_tls.${https}`]: mutualRecord({ host: 'app.example.com', authorities: [other], account }),
    })
    const late = await open.get()
    assert.deepEqual([late.status, /^connection: close/im.test(late.text)], [421, true])
    open.close()
    assert.equal((await visit(edge, { client: alice, tls })).status, 0)
    assert.equal((await visit(edge, { client: alice, tls, session })).status, 0)
    assert.equal((await visit(edge, { tls, session })).status, 0)
    assert.equal((await visit(edge, { client: mallory, tls })).status, 200)
    // Both: a certificate of either gets in.
    await edge.apply({
      [`mutual_tls.${https}`]: mutualRecord({ host: 'app.example.com', authorities: [other, root], account }),
    })
    for (const client of [alice, mallory]) assert.equal((await visit(edge, { client, tls })).status, 200)
    await edge.apply({
      [`mutual_tls.${https}`]: mutualRecord({ host: 'app.example.com', authorities: [root], account }),
    })
  }
  await edge.apply({ [`mutual_tls.${https}`]: null })
})

test('switched on and off, for connections that are open too', async () => {
  const { https, account } = await putMutual(edge, {
    host: 'app.example.com',
    authorities: [root],
    port: upstream.port,
  })
  const off = { [`mutual_tls.${https}`]: null, [`https.${https}`]: { hostports: ['app.example.com:443'] } }
  const on = {
    [`mutual_tls.${https}`]: mutualRecord({ host: 'app.example.com', authorities: [root], account }),
    [`https.${https}`]: null,
  }
  await edge.apply(off)
  const open = new Client(edge, {})
  assert.equal((await open.get()).status, 200)
  // Half of a change: the edge asks as soon as it is known to.
  await edge.apply({ [`mutual_tls.${https}`]: on[`mutual_tls.${https}`] as object })
  assert.equal((await open.get()).status, 403)
  assert.equal((await visit(edge)).status, 0)
  await edge.apply({ [`https.${https}`]: null })
  const refused = await open.get()
  assert.deepEqual([refused.status, /ERR_CLIENT_CERTIFICATE_REQUIRED/.test(refused.text)], [403, true])
  open.close()
  assert.equal((await visit(edge, { client: alice })).status, 200)
  await edge.apply(off)
  assert.equal((await visit(edge)).status, 200)
  await edge.apply({ [`https.${https}`]: null })
})

test('names under a wildcard ask, but for those of other edges', async () => {
  const { https } = await putMutual(edge, { host: '*.wild.example.com', authorities: [root], port: upstream.port })
  assert.equal((await visit(edge, { servername: 'a.wild.example.com' })).status, 0)
  assert.equal((await visit(edge, { servername: 'a.wild.example.com', client: alice })).status, 200)
  const one = await putMutual(edge, { host: 'b.wild.example.com', authorities: [other], port: upstream.port })
  assert.equal((await visit(edge, { servername: 'b.wild.example.com', client: mallory })).status, 200)
  assert.equal((await visit(edge, { servername: 'b.wild.example.com', client: alice })).status, 0)
  assert.equal((await visit(edge, { servername: 'a.wild.example.com', client: alice })).status, 200)
  await edge.apply({ [`mutual_tls.${https}`]: null, [`mutual_tls.${one.https}`]: null })
  assert.equal((await visit(edge, { servername: 'a.wild.example.com' })).status, 404)
})

test('a restarted agent and a restarted HAProxy ask for the same, or serve no one', async () => {
  const { https, account } = await putMutual(edge, { ...app, authorities: [root] })
  const visits = async () => {
    const clients = [alice, mallory, undefined]
    return Promise.all(clients.map(async (client) => (await visit(edge, { client })).status))
  }
  assert.deepEqual(await visits(), [200, 0, 0])
  await edge.restartAgent()
  assert.deepEqual(await visits(), [200, 0, 0])
  const [, pid] = /^Pid: (\d+)$/m.exec(await ask(edge.settings.runtimeSocket, 'show info')) ?? []
  process.kill(Number(pid), 'SIGKILL')
  await poll(async () => (await visit(edge, { client: alice })).status === 200)
  assert.deepEqual(await visits(), [200, 0, 0])
  // The disk has the previous authorities: no one gets in until they are those of the record.
  const key = `mutual_tls.${https}` as RecordKey
  const value = mutualRecord({ host, authorities: [other], account }) as MutualTlsRecord
  await edge.restartAgent({ [key]: value })
  assert.ok(!(await visits()).includes(200))
  edge.known.set(key, { key, generation: 1_000, value })
  await edge.certificates.applyEdges([key])
  assert.deepEqual(await visits(), [0, 200, 0])
  await edge.apply({ [key]: null })
  // Nothing of it is left, on disk or in HAProxy.
  assert.deepEqual(await readdir(authorityFolder(edge.settings)), [])
  assert.doesNotMatch(await ask(edge.settings.runtimeSocket, 'show ssl ca-file'), /authorities/)
  assert.deepEqual(edge.faults, [])
})

test('what another program changes of authorities in HAProxy is found and repaired', async (t) => {
  const found: Difference[] = []
  const options = { comparisonMs: 200, onDifferences: (some: readonly Difference[]) => void found.push(...some) }
  const watched = await startMutualEdge(t, { certificates: [host], options })
  await putMutual(watched, { ...app, authorities: [root] })
  const [file = ''] = await readdir(authorityFolder(watched.settings))
  const path = join(authorityFolder(watched.settings), file)
  await ask(watched.settings.runtimeSocket, `set ssl ca-file ${path} <<\n${other.pem}\n`)
  await ask(watched.settings.runtimeSocket, `commit ssl ca-file ${path}`)
  await poll(() => found.some(({ what, kind }) => what === 'client authorities' && kind === 'changed'))
  await poll(async () => (await visit(watched, { client: alice })).status === 200)
  assert.equal((await visit(watched, { client: mallory })).status, 0)
})

test('authorities that HAProxy does not take shut the edge', async () => {
  const { https, account } = await putMutual(edge, { ...app, authorities: [root] })
  const authorities = ['-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n']
  await edge.apply({ [`mutual_tls.${https}`]: { account, hostports: [`${host}:443`], mode: 'required', authorities } })
  assert.match(
    edge.faults.splice(0).join(),
    /app\.example\.com cannot be served: its client authorities cannot be read/,
  )
  for (const client of [alice, mallory, undefined]) assert.notEqual((await visit(edge, { client })).status, 200)
  await edge.apply({ [`mutual_tls.${https}`]: mutualRecord({ host, authorities: [root], account }) })
  assert.equal((await visit(edge, { client: alice })).status, 200)
  await edge.apply({ [`mutual_tls.${https}`]: null })
})
