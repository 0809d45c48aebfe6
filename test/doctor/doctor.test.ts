// `gatehouse doctor` against real engines: a healthy installation, and each set-up broken in one place.
import assert from 'node:assert/strict'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { asAppRole } from '../../dev/app_role.ts'
import { freePort } from '../../dev/ports.ts'
import { newCertificate } from '../harness/certificates.ts'
import { gatehouse } from '../harness/command.ts'
import { newDatabase } from '../harness/control_plane.ts'
import { loadScaledTimeout } from '../harness/load_scaled_timeout.ts'
import { poll } from '../harness/poll.ts'
import { testRun } from '../harness/test_run.ts'
import { diagnose, type Environment, healthySetUp, query, silentPort, startTlsNats, write } from './setup.ts'

const setUp = await healthySetUp({ after })
const { folder, controlPlane, edge } = setUp
const nameOf = (url: string) => new URL(url).pathname.slice(1)
const portOf = (listen = '') => Number(listen.slice(listen.lastIndexOf(':') + 1))
function withUrl(url: string, change: (url: URL) => void): Environment {
  const changed = new URL(url)
  change(changed)
  return { GATEHOUSE_DATABASE_URL: changed.href }
}
const ownUrl = controlPlane.GATEHOUSE_DATABASE_URL ?? ''

test('a healthy installation has no failure', async () => {
  const plane = await diagnose(controlPlane)
  assert.deepEqual(
    plane.findings.filter(({ status }) => status !== 'ok'),
    [],
  )
  assert.equal(plane.code, 0)
  const checks = plane.findings.map(({ check }) => check)
  for (const check of [
    'node.version',
    'postgresql.version',
    'postgresql.durability',
    'postgresql.migrations',
    'postgresql.role',
    'clock.postgresql',
    'secrets.key',
    'nats.certificate',
    'nats.credentials',
    'nats.buckets',
    'dns.servers',
    'listen.port',
  ])
    assert.ok(checks.includes(check), check)
})

type Broken = { env: () => Promise<Environment> | Environment; check: string; says: RegExp; hint: RegExp }

const brokenPlanes: Record<string, Broken> = {
  'a wrong password of PostgreSQL': {
    env: () =>
      withUrl(ownUrl, (url) => {
        url.password = 'not-the-password'
      }),
    check: 'postgresql.connection',
    says: /^password authentication failed for user "gatehouse_app"$/,
    hint: /user and password in GATEHOUSE_DATABASE_URL/,
  },
  'PostgreSQL away': {
    env: async () => {
      const port = await freePort()
      return withUrl(ownUrl, (url) => {
        url.port = String(port)
      })
    },
    check: 'postgresql.connection',
    says: /does not answer at .*ECONNREFUSED/,
    hint: /^Start PostgreSQL, correct host and port/,
  },
  'a database that does not exist': {
    env: () =>
      withUrl(ownUrl, (url) => {
        url.pathname = '/not_there'
      }),
    check: 'postgresql.connection',
    says: /"not_there" does not exist/,
    hint: /^Create the database/,
  },
  'a role without rights': {
    async env() {
      const role = `${testRun.databasePrefix}bare`
      await query(setUp.databaseUrl, `create role ${role} login password 'bare'`)
      after(() => query(testRun.postgresUrl, `drop role ${role}`))
      return withUrl(ownUrl, (url) => Object.assign(url, { username: role, password: 'bare' }))
    },
    check: 'postgresql.role',
    says: /_bare lacks select, insert, update, delete on \w+ and rights on \d+ more tables/,
    hint: /gatehouse migrate.*GATEHOUSE_DATABASE_APP_ROLE=\w+_bare/,
  },
  'a role from before the last migration': {
    async env() {
      const url = await newDatabase()
      await query(url, 'revoke insert, delete on webhook_destinations from gatehouse_app')
      return { GATEHOUSE_DATABASE_URL: asAppRole(url) }
    },
    check: 'postgresql.role',
    says: /^gatehouse_app lacks insert, delete on webhook_destinations$/,
    hint: /GATEHOUSE_DATABASE_APP_ROLE=gatehouse_app/,
  },
  'synchronous_commit off': {
    async env() {
      const url = await newDatabase()
      await query(url, `alter database ${nameOf(url)} set synchronous_commit = off`)
      return { GATEHOUSE_DATABASE_URL: asAppRole(url) }
    },
    check: 'postgresql.durability',
    says: /synchronous_commit=off, which can lose acknowledged changes/,
    hint: /^Set synchronous_commit to on/,
  },
  'an empty database': {
    env: async () => ({ GATEHOUSE_DATABASE_URL: await newDatabase('template0') }),
    check: 'postgresql.migrations',
    says: /^the database is empty$/,
    hint: /^Run 'gatehouse migrate'/,
  },
  'a database of an older version': {
    async env() {
      const url = await newDatabase()
      await query(url, 'delete from migrations where name = (select max(name) from migrations)')
      return { GATEHOUSE_DATABASE_URL: asAppRole(url) }
    },
    check: 'postgresql.migrations',
    says: /^\d{4}_\w+\.sql not applied$/,
    hint: /^Run 'gatehouse migrate' with this version/,
  },
  // This function stands for a server whose clock is an hour behind: nothing else in the database changes.
  'a clock that is an hour ahead of the database': {
    async env() {
      const url = await newDatabase()
      await query(
        url,
        'create schema shifted',
        `create function shifted.clock_timestamp() returns timestamptz language sql as
          $$ select pg_catalog.clock_timestamp() - interval '1 hour' $$`,
        'grant usage on schema shifted to gatehouse_app',
        `alter database ${nameOf(url)} set search_path = public, shifted, pg_catalog`,
      )
      return { GATEHOUSE_DATABASE_URL: asAppRole(url) }
    },
    check: 'clock.postgresql',
    says: /clock is (3600|3599)\.\d s ahead of that of PostgreSQL/,
    hint: /NTP/,
  },
  'NATS away': {
    env: async () => ({ GATEHOUSE_NATS_URL: `tls://127.0.0.1:${await freePort()}` }),
    check: 'nats.server',
    says: /^cannot reach tls:.*ECONNREFUSED/,
    hint: /^Start nats-server/,
  },
  'another program where NATS should be': {
    env: () => ({ GATEHOUSE_NATS_URL: `tls://127.0.0.1:${portOf(new URL(ownUrl).host)}` }),
    check: 'nats.server',
    says: /cannot reach tls:/,
    hint: /GATEHOUSE_NATS_URL/,
  },
  'a certificate of NATS for another name': {
    env: async () => (await startTlsNats({ after }, folder, 'nats')).controlPlane,
    check: 'nats.certificate',
    says: /certificate is for "nats", not 127\.0\.0\.1$/,
    hint: /GATEHOUSE_NATS_URL, or issue one for this name/,
  },
  'an authority that did not sign the certificate of NATS': {
    async env() {
      const other = newCertificate(['another authority'], { isAuthority: true })
      return { GATEHOUSE_NATS_CA_FILE: await write(join(folder, 'other-ca.pem'), other.certificate_pem) }
    },
    check: 'nats.certificate',
    says: /is not trusted: /,
    hint: /GATEHOUSE_NATS_CA_FILE/,
  },
  'a wrong password of NATS': {
    env: () => ({ GATEHOUSE_NATS_PASSWORD: 'not-the-password' }),
    check: 'nats.credentials',
    says: /refuses the connection as control-plane: .*authorization violation/i,
    hint: /GATEHOUSE_NATS_USER and GATEHOUSE_NATS_PASSWORD/,
  },
  'a port that another program has': {
    env: async () => ({ GATEHOUSE_LISTEN: `127.0.0.1:${await silentPort({ after })}` }),
    check: 'listen.port',
    says: /^another program listens on 127\.0\.0\.1:\d+$/,
    hint: /change GATEHOUSE_LISTEN/,
  },
  'a secrets key that everyone can read': {
    async env() {
      const file = await write(join(folder, 'open.key'), `${Buffer.alloc(32, 'x').toString('base64')}\n`, 0o644)
      return { GATEHOUSE_SECRETS_KEY_FILE: file }
    },
    check: 'secrets.key',
    says: /open\.key, which everyone on this machine can read/,
    hint: /^Run: chmod 600 .*open\.key$/,
  },
  'a secrets key that is not there': {
    env: () => ({ GATEHOUSE_SECRETS_KEY_FILE: join(folder, 'gone.key') }),
    check: 'secrets.key',
    says: /gone\.key, which cannot be read: ENOENT/,
    hint: /^Let the user that runs 'gatehouse serve' read it/,
  },
  'DNS servers that do not answer': {
    env: async () => ({ GATEHOUSE_DNS_SERVERS: `127.0.0.1:${await freePort()}` }),
    check: 'dns.servers',
    says: /^no answer from 127\.0\.0\.1:\d+/,
    hint: /^Correct GATEHOUSE_DNS_SERVERS/,
  },
  'two settings that are wrong': {
    env: () => ({ GATEHOUSE_LISTEN: '8080', GATEHOUSE_NATS_URL: 'http://nats:hidden@nats-1' }),
    check: 'settings',
    says: /^GATEHOUSE_(LISTEN must be address:port|NATS_URL must be URLs such as)/,
    hint: /gatehouse serve --help/,
  },
}

async function rejects(healthy: Environment, { env, check, says, hint }: Broken): Promise<void> {
  const changed = await env()
  const { code, findings, text } = await diagnose({ ...healthy, ...changed })
  const faults = findings.filter(({ status }) => status === 'failed')
  assert.equal(code, 1)
  assert.ok(faults.length > 0, text)
  for (const fault of faults) {
    assert.equal(fault.check, check, JSON.stringify(faults))
    assert.match(fault.message, says)
    assert.match(fault.hint, hint)
  }
  for (const secret of ['not-the-password', 'hidden', new URL(ownUrl).password].filter(
    (each) => each !== 'gatehouse_app',
  ))
    assert.ok(!text.includes(secret), `${secret} is printed`)
}

for (const [name, broken] of Object.entries(brokenPlanes))
  test(`control plane: ${name}, and nothing else, is diagnosed`, () => rejects(controlPlane, broken))

/** A program of another vendor in place of HAProxy: one that prints what an old one prints. */
async function oldHaproxy(): Promise<string> {
  const programs = join(folder, 'old')
  await mkdir(programs, { recursive: true })
  await write(join(programs, 'haproxy'), '#!/bin/sh\necho "HAProxy version 2.6.12-1+deb12u1 2023/12/16"\n', 0o755)
  return programs
}

const brokenEdges: Record<string, Broken> = {
  'HAProxy missing': {
    env: () => ({ PATH: '/nowhere' }),
    check: 'haproxy.version',
    says: /cannot run 'haproxy'.*ENOENT/,
    hint: /^Install HAProxy 3\.4 or newer/,
  },
  'HAProxy too old': {
    env: async () => ({ PATH: await oldHaproxy() }),
    check: 'haproxy.version',
    says: /^HAProxy 2\.6\.12\S* is too old: Gatehouse needs 3\.4 or newer$/,
    hint: /^docs\/guides\/add-an-edge-node\.md says where to get it/,
  },
  'a port of HTTPS edges that another program has': {
    env: async () => ({ GATEHOUSE_EDGE_HTTPS_LISTEN: `127.0.0.1:${await silentPort({ after })}` }),
    check: 'haproxy.ports',
    says: /^another program listens on 127\.0\.0\.1:\d+$/,
    hint: /change GATEHOUSE_EDGE_HTTPS_LISTEN/,
  },
  'a port of TCP edges that another program has': {
    async env() {
      const port = await silentPort({ after })
      return { GATEHOUSE_TCP_PORTS: `${port}-${port}` }
    },
    check: 'haproxy.ports',
    says: /^another program listens on \d+ of \d+-\d+ for TCP edges$/,
    hint: /GATEHOUSE_TCP_PORTS here and on the control plane/,
  },
  'more connections than file descriptors': {
    // More than Linux gives to a process by default, even as root.
    env: () => ({ GATEHOUSE_EDGE_MAX_CONNECTIONS: '1000000' }),
    check: 'haproxy.descriptors',
    says: /HAProxy needs 200\d+ for 1000000 connections and 6 listening ports, and the limit here is \d+/,
    hint: /LimitNOFILE=200\d+/,
  },
  'a certificate file that has expired': {
    async env() {
      const certificates = join(folder, 'expired')
      await mkdir(certificates)
      const { certificate_pem, private_key_pem } = newCertificate(['old.example'], { days: -1 })
      await write(join(certificates, 'old.pem'), certificate_pem + private_key_pem)
      return { GATEHOUSE_EDGE_CERTIFICATES: certificates }
    },
    check: 'certificates.files',
    says: /old\.pem expired on \d{4}-\d\d-\d\d$/,
    hint: /^Replace the file/,
  },
  'a certificate with the key of another': {
    async env() {
      const certificates = join(folder, 'mixed')
      await mkdir(certificates)
      const [one, other] = [newCertificate(['a.example']), newCertificate(['b.example'])]
      await write(join(certificates, 'mixed.pem'), one.certificate_pem + other.private_key_pem)
      return { GATEHOUSE_EDGE_CERTIFICATES: certificates }
    },
    check: 'certificates.files',
    says: /mixed\.pem is not served: its key is not that of its first certificate/,
    hint: /^Put certificate, chain and unencrypted key into it/,
  },
  'a node key that others can read': {
    async env() {
      const home = join(folder, 'open-node')
      await mkdir(home)
      await write(join(home, 'node.key'), 'not a key', 0o644)
      return { GATEHOUSE_EDGE_FOLDER: home }
    },
    check: 'edge.node_key',
    says: /node\.key is open to others$/,
    hint: /^Run: chmod 600 .*node\.key$/,
  },
  'the name of another node': {
    env: () => ({ GATEHOUSE_EDGE_NODE: 'edge-2' }),
    check: 'nats.reports',
    says: /^the control plane does not receive what this node reports: no responders/,
    hint: /GATEHOUSE_EDGE_NODE is edge-2: authorization\.conf/,
  },
  'no trusted key that can be read': {
    env: () => ({ GATEHOUSE_EDGE_TRUSTED_KEYS: 'nonsense' }),
    check: 'edge.trusted_keys',
    says: /^GATEHOUSE_EDGE_TRUSTED_KEYS has /,
    hint: /gatehouse signing-keys list/,
  },
}

test('edge node: what is broken is diagnosed, and nothing else, once the buckets are there', async (t) => {
  await setUp.createBuckets(t)
  const healthy = await poll(
    () => diagnose(edge),
    ({ findings }) => findings.some(({ check, status }) => check === 'nats.buckets' && status === 'ok'),
  )
  assert.deepEqual(
    healthy.findings.filter(({ status }) => status !== 'ok'),
    [],
  )
  for (const [name, broken] of Object.entries(brokenEdges)) await t.test(name, () => rejects(edge, broken))
})

test('a node whose buckets do not exist yet needs its control plane first', async () => {
  const files = join(folder, 'other-nats')
  await mkdir(files)
  const nats = await startTlsNats({ after }, files, '127.0.0.1')
  await rejects(edge, {
    env: () => nats.edge,
    check: 'nats.buckets',
    says: /^they do not exist$/,
    hint: /^Start 'gatehouse serve'/,
  })
})

test('a server that does not answer times out, and hides no other finding', async () => {
  const port = await silentPort({ after })
  const began = Date.now()
  const { code, findings } = await diagnose({
    ...controlPlane,
    ...withUrl(ownUrl, (url) => {
      url.port = String(port)
    }),
    GATEHOUSE_NATS_URL: `tls://127.0.0.1:${port}`,
  })
  assert.equal(code, 1)
  const faults = findings.filter(({ status }) => status === 'failed').map(({ check }) => check)
  assert.deepEqual(faults, ['postgresql.connection', 'nats.server'])
  assert.ok(Date.now() - began < loadScaledTimeout(15_000), `it took ${Date.now() - began} ms`)
})

test('as text there is one line per check, with what to do; misspelled settings are named', async () => {
  const { code, stdout } = await gatehouse(['doctor'], { ...controlPlane, GATEHOUSE_NATS_URI: 'tls://nats-1' })
  assert.equal(code, 0)
  const lines = stdout.trimEnd().split('\n')
  const counted = lines.pop()
  assert.match(counted ?? '', /^\d+ ok, 1 warning, 0 failed$/)
  for (const line of lines.slice(0, -1)) assert.match(line, /^(ok {5}|warning|failed ) {2}[a-z_.]+ +\S/)
  assert.ok(
    lines.some((line) =>
      /GATEHOUSE_NATS_URI is not a setting and has no effect\. Did you mean GATEHOUSE_NATS_URL\?$/.test(line),
    ),
    stdout,
  )
})

test('settings can come from the file of a service; without any, doctor says so', async () => {
  const file = await write(
    join(folder, 'gatehouse.env'),
    Object.entries(controlPlane)
      .map(([name, value]) => `${name}=${value}`)
      .join('\n'),
  )
  assert.equal((await gatehouse(['doctor', '--env-file', file])).code, 0)
  const { code, stdout } = await gatehouse(['doctor'])
  assert.equal(code, 1)
  assert.match(stdout, /^failed +settings +there are neither settings of a control plane nor of an edge node/m)
  const wrong = await gatehouse(['doctor', '--output', 'xml'])
  assert.deepEqual([wrong.code, wrong.stderr], [2, 'gatehouse: --output must be one of text, json\n'])
})
