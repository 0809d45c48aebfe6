// A second machine for an installation: what the first one seals for it, what it refuses, and that it then serves. The steps
// write into folders of ours, beside a real PostgreSQL and NATS with TLS.
import assert from 'node:assert/strict'
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, type TestContext, test } from 'node:test'
import { parseEnv } from 'node:util'
import { asAppRole } from '../dev/app_role.ts'
import { putEnginesOnPath } from '../dev/engines.ts'
import type { LocalNats } from '../dev/nats.ts'
import { freePort } from '../dev/ports.ts'
import { openPool, run } from '../src/db/pool.ts'
import { sql } from '../src/db/sql.ts'
import { newNatsOperator } from '../src/fleet/nats_accounts.ts'
import { admitControlPlane, bundleOf, requireReachable } from '../src/setup/admit.ts'
import { type Bundle, newKey, publicKey, seal } from '../src/setup/bundle.ts'
import { joinSteps, openBundle, spentKeyStep } from '../src/setup/join.ts'
import { perform } from '../src/setup/step.ts'
import { startJoining } from './fleet/joining.ts'
import { startOperatorNats } from './fleet/operator_nats.ts'
import { newDatabase, secretsKeyFile } from './harness/control_plane.ts'
import { poll } from './harness/poll.ts'
import { quickCertificate } from './harness/quick_certificates.ts'

putEnginesOnPath()
const cleanUps: (() => Promise<void>)[] = []
after(async () => {
  for (const cleanUp of cleanUps.reverse()) await cleanUp()
})
const scope = { after: (cleanUp: () => Promise<void>) => void cleanUps.push(cleanUp) }
const authority = await newAuthority()
const { operator } = newNatsOperator(Date.now())
const fleet = await startJoining(scope, { nats: startTls(), operator })
await fleet.untilReady()
/** With a second server that does not answer now, as after a failover. */
const databaseUrl = asAppRole(fleet.databaseUrl).replace(/(@[^/]*)\//, '$1,127.0.0.1:9/')

/** A certificate that is its own authority, as a company might have. */
async function newAuthority() {
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-join-tls-'))
  scope.after(() => rm(folder, { recursive: true }))
  const { certificate_pem, private_key_pem } = quickCertificate(['localhost'])
  const [file, key] = [join(folder, 'nats.pem'), join(folder, 'nats.key')]
  await writeFile(file, certificate_pem)
  await writeFile(key, private_key_pem)
  return { file, key, pem: certificate_pem }
}

async function startTls(): Promise<LocalNats> {
  const tls = `tls { cert_file: "${authority.file}", key_file: "${authority.key}" }\n`
  const nats = await startOperatorNats(scope, operator, tls)
  const url = `tls://localhost:${nats.port}`
  const more = { GATEHOUSE_NATS_URL: url, GATEHOUSE_NATS_CA_FILE: authority.file }
  return { ...nats, url, controlPlane: { ...nats.controlPlane, ...more } }
}

async function newMachine(t: Pick<TestContext, 'after'>) {
  const root = await mkdtemp(join(tmpdir(), 'gatehouse-join-test-'))
  t.after(() => rm(root, { recursive: true }))
  const at = { controlPlane: root, nats: join(root, 'nats'), edge: join(root, 'edge'), edgeState: join(root, 'state') }
  const write = (name: string, text: string) => writeFile(join(root, name), text, { mode: 0o600 })
  const read = (name: string) => readFile(join(root, name), 'utf8')
  return { at, root, write, read, key: () => newKey(join(root, 'join.key')) }
}

async function firstMachine(t: Pick<TestContext, 'after'>, more = '') {
  const machine = await newMachine(t)
  await machine.write('secrets.key', await readFile(secretsKeyFile(), 'utf8'))
  await machine.write('database-url', `${databaseUrl}\n`)
  await machine.write('database-owner-url', `${fleet.databaseUrl}\n`)
  await machine.write('setup.env', 'GATEHOUSE_PUBLIC_URL=https://setup.example\nGATEHOUSE_LISTEN=192.0.2.1:8080\n')
  const settings = {
    GATEHOUSE_PUBLIC_URL: 'https://control.example',
    GATEHOUSE_NATS_URL: fleet.nats.url,
    GATEHOUSE_NATS_CA_FILE: authority.file,
    GATEHOUSE_SECRETS_KEY_FILE: '/run/credentials/gatehouse.service/secrets-key',
    GATEHOUSE_DOMAIN_OWNERSHIP: 'trusted',
  }
  const lines = Object.entries(settings).map(([name, value]) => `${name}=${value}`)
  await machine.write('gatehouse.env', `${lines.join('\n')}\nHTTPS_PROXY=http://proxy.example\n${more}`)
  return machine
}

test('a second machine gets what it needs, sealed to its key, and serves the same installation', async (t) => {
  const [first, second] = [
    await firstMachine(t, "GATEHOUSE_TRUSTED_PROXIES='10.97.0.21, 10.97.0.22'\n"),
    await newMachine(t),
  ]
  const listen = `127.0.0.1:${await freePort()}`
  const sealed = seal(await bundleOf(first.at), second.key())
  const secrets = [
    await first.read('database-url'),
    await first.read('database-owner-url'),
    await first.read('secrets.key'),
  ]
  for (const secret of secrets) assert.ok(!sealed.includes(secret.trim()))

  const bundle = await openBundle(second.at, sealed, listen)
  assert.deepEqual(bundle.unknown, ['HTTPS_PROXY'], 'said to the operator')
  assert.deepEqual(await readdir(second.root), ['join.key'], 'looking writes nothing')
  const steps = joinSteps(second.at, bundle)
  await perform(steps, true)
  assert.deepEqual(await readdir(second.root), ['join.key'], 'nor does a plan')

  // Killed after the first file, and run again.
  await perform(steps.slice(0, 1), false)
  await perform(joinSteps(second.at, await openBundle(second.at, sealed, listen)), false)
  assert.equal(await second.read('nats-ca.pem'), authority.pem)
  for (const [at, name] of ['database-url', 'database-owner-url', 'secrets.key'].entries()) {
    assert.equal(await second.read(name), secrets[at])
    assert.equal((await stat(join(second.root, name))).mode & 0o777, 0o600, name)
  }
  const settings = parseEnv(await second.read('setup.env')) as Record<string, string>
  assert.deepEqual(settings, {
    GATEHOUSE_PUBLIC_URL: 'https://control.example',
    GATEHOUSE_LISTEN: listen,
    GATEHOUSE_NATS_URL: fleet.nats.url,
    GATEHOUSE_NATS_CA_FILE: join(first.root, 'nats-ca.pem'),
    GATEHOUSE_SECRETS_KEY_FILE: '/run/credentials/gatehouse.service/secrets-key',
    GATEHOUSE_DOMAIN_OWNERSHIP: 'trusted',
    GATEHOUSE_TRUSTED_PROXIES: '10.97.0.21, 10.97.0.22',
  })

  const { origin, child } = await fleet.startProcess({
    ...settings,
    GATEHOUSE_DATABASE_URL: '',
    GATEHOUSE_DATABASE_URL_FILE: join(second.root, 'database-url'),
    GATEHOUSE_SECRETS_KEY_FILE: join(second.root, 'secrets.key'),
    GATEHOUSE_NATS_CA_FILE: join(second.root, 'nats-ca.pem'),
  })
  assert.equal(`http://${listen}`, origin)
  const [one] = fleet.processes
  one?.child.kill('SIGKILL')
  const isPublisher = async () =>
    /^gatehouse_publisher_active\{.*\} 1$/m.test(await (await fetch(`${origin}/metrics`)).text())
  await poll(isPublisher, Boolean)
  assert.equal(child.exitCode, null, 'it reads the sealed keys, and takes over what the first one sent')

  await perform([spentKeyStep(second.at)], false)
  await assert.rejects(openBundle(second.at, sealed, listen), /join\.key is missing/, 'a bundle works once')
})

test('what does not fit is refused before anything is written', async (t) => {
  const first = await firstMachine(t)
  const good = await bundleOf(first.at)
  const listen = `127.0.0.1:${await freePort()}`
  const older = await newDatabase()
  const db = openPool({ url: older, poolSize: 1, connectTimeoutMs: 5_000, statementTimeoutMs: 5_000 }, () => {})
  await run(db, sql`delete from migrations where name = (select max(name) from migrations)`).finally(() => db.end())
  const refused = async (
    bundle: Bundle,
    reason: RegExp,
    prepare = async (_: Awaited<ReturnType<typeof newMachine>>) => {},
  ) => {
    const machine = await newMachine(t)
    const sealed = seal(bundle, machine.key())
    await prepare(machine)
    const before = await readdir(machine.root)
    await assert.rejects(openBundle(machine.at, sealed, listen), reason)
    assert.deepEqual(await readdir(machine.root), before)
  }
  const withFile = (name: keyof Bundle['files'], text: string) => ({ ...good, files: { ...good.files, [name]: text } })
  const withSetting = (settings: Record<string, string>) => ({ ...good, settings: { ...good.settings, ...settings } })

  await refused({ ...good, version: '0.0.1' }, /bundle is of 0\.0\.1, and this machine has/)
  await refused({ ...good, system: '1' }, /lead to another database here/)
  await refused(withFile('database-url', 'postgres://gatehouse_app:wrong@127.0.0.1:9/none\n'), /postgresql\.connection/)
  await refused(
    withFile('secrets.key', `${Buffer.alloc(32, 'another').toString('base64')}\n`),
    /secrets\.stored|secrets/,
  )
  await refused(withSetting({ GATEHOUSE_NATS_URL: 'nats://127.0.0.1:9' }), /nats\.server: cannot reach/)
  const { certificate_pem: other } = quickCertificate(['nats.example'])
  await refused(withFile('nats-ca.pem', other), /nats\.certificate: .* is not trusted/)
  await refused(withSetting({ GATEHOUSE_OIDC_FILE: '/etc/gatehouse/oidc.yaml' }), /oidc\.yaml/)
  await refused(good, /secrets\.key would be overwritten/, ({ write }) => write('secrets.key', 'another\n'))
  await refused(good, /gatehouse\.env sets GATEHOUSE_PUBLIC_URL to another value/, ({ write }) =>
    write('gatehouse.env', 'GATEHOUSE_PUBLIC_URL=https://other.example\n'),
  )
  await refused(good, /gatehouse\.env sets GATEHOUSE_DATABASE_URL to another value/, ({ write }) =>
    write('gatehouse.env', `GATEHOUSE_DATABASE_URL=${databaseUrl}\n`),
  )

  const machine = await newMachine(t)
  const sealed = seal(good, machine.key())
  await assert.rejects(openBundle(machine.at, sealed.replace(/\n(.)/, '\nA'), listen), /age failed/)
  const another = await newMachine(t)
  another.key()
  await assert.rejects(openBundle(another.at, sealed, listen), /age failed: no identity matched/)
  const evil = {
    ...withFile('../evil' as 'secrets.key', 'evil\n'),
    settings: { ...good.settings, NODE_OPTIONS: '--import=/tmp/evil.mjs' },
  }
  const { settings, files } = await openBundle(
    machine.at,
    seal(evil, publicKey(join(machine.root, 'join.key'))),
    listen,
  )
  assert.equal(settings.NODE_OPTIONS, undefined, 'only what the program knows reaches the service')
  assert.deepEqual(Object.keys(files), Object.keys(good.files))
})

test('a machine that only reaches itself admits no other, nor does one that does not serve', async (t) => {
  const first = await firstMachine(t)
  await assert.rejects(
    async () => requireReachable(await bundleOf(first.at)),
    /URL of the database leads to this machine/,
  )
  const reachable = { 'database-url': 'postgres://a:b@data-1,data-2/gatehouse' }
  const says = (nats: string) => () => requireReachable({ settings: { GATEHOUSE_NATS_URL: nats }, files: reachable })
  assert.throws(says('tls://data-1:4222,tls://127.0.0.1:4222'), /GATEHOUSE_NATS_URL leads to this machine/)
  assert.doesNotThrow(says('tls://data-1:4222,tls://data-2:4222'))
  await assert.rejects(bundleOf((await newMachine(t)).at), /does not serve: .*database-url is missing/)
  await rm(join(first.root, 'secrets.key'))
  await assert.rejects(bundleOf(first.at), /secrets\.key, which is missing/)
  await assert.rejects(admitControlPlane('age1short'), /takes the key that/)
})
