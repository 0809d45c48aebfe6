// The files that `gatehouse setup` makes, in folders of ours. `npm run drill -- install` runs the whole command.
import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { X509Certificate } from 'node:crypto'
import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { hostname, tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { parseEnv } from 'node:util'
import { createUpstreamPolicy } from '../src/agent/upstreams/policy.ts'
import { readConfig } from '../src/config/config.ts'
import { edgeSettings } from '../src/config/edge.ts'
import { settings } from '../src/config/server.ts'
import { networks } from '../src/config/values.ts'
import { certificateStep } from '../src/setup/certificate.ts'
import { edgeSteps } from '../src/setup/edge.ts'
import { edgeSettingsStep, folders, localNatsUrl, settingsSteps } from '../src/setup/files.ts'
import { hasPasswords, operatorSteps } from '../src/setup/nats.ts'
import { outsideHost, publicUrlSteps } from '../src/setup/outside.ts'
import { perform } from '../src/setup/step.ts'
import { newDatabase, secretsKeyFile } from './harness/control_plane.ts'

const hasOpenssl = !spawnSync('openssl', ['version']).error
const skip = hasOpenssl ? false : 'openssl is not installed'
const group = execFileSync('id', ['-gn'], { encoding: 'utf8' }).trim()

async function newFolders(t: Pick<TestContext, 'after'>) {
  const root = await mkdtemp(join(tmpdir(), 'gatehouse-setup-test-'))
  t.after(() => rm(root, { recursive: true }))
  const at = {
    controlPlane: join(root, 'gatehouse'),
    nats: join(root, 'nats'),
    edge: join(root, 'edge'),
    edgeState: join(root, 'state'),
  }
  for (const folder of Object.values(at)) await mkdir(folder)
  return { root, at }
}

const databaseUrl = await newDatabase()
const databaseConfig = () =>
  readConfig({ GATEHOUSE_DATABASE_URL: databaseUrl, GATEHOUSE_SECRETS_KEY_FILE: secretsKeyFile() })

test('setup writes files once, secrets for root only, and a certificate that its authority signed', {
  skip,
}, async (t) => {
  const { root, at } = await newFolders(t)
  const steps = [
    certificateStep(at, group),
    ...settingsSteps(at),
    ...operatorSteps(at, databaseConfig),
    edgeSettingsStep(at),
  ]
  const contents = async () => {
    const files = (await readdir(root, { recursive: true, withFileTypes: true })).filter((entry) => entry.isFile())
    const paths = files.map(({ parentPath, name }) => join(parentPath, name)).sort()
    return Promise.all(paths.map(async (path) => [path.slice(root.length + 1), await readFile(path, 'utf8')]))
  }

  await perform(steps, true)
  assert.deepEqual(await contents(), [], 'a plan changes nothing')
  // With a umask that would hide what services must read.
  const umask = process.umask(0o077)
  await perform(steps, false).finally(() => process.umask(umask))
  const made = await contents()
  await perform(steps, false)
  assert.deepEqual(await contents(), made, 'a second run changes nothing')
  for (const step of steps) assert.ok(await step.isDone(), step.what)

  const secrets = ['gatehouse/nats-root.key', 'gatehouse/secrets.key', 'nats/ca.key']
  for (const [path = ''] of made) {
    const { mode } = await stat(join(root, path))
    const expected = secrets.includes(path) ? 0o600 : path === 'nats/server.key' ? 0o640 : 0o644
    assert.equal(mode & 0o777, expected, path)
  }
  const verify = ['verify', '-CAfile', join(at.controlPlane, 'nats-ca.pem')]
  for (const identity of [
    ['-verify_hostname', 'localhost'],
    ['-verify_ip', new URL(localNatsUrl).hostname],
  ])
    execFileSync('openssl', [...verify, ...identity, join(at.nats, 'server.pem')])
  for (const [file, known] of [
    [join(at.controlPlane, 'setup.env'), settings],
    [join(at.edge, 'setup.env'), edgeSettings],
  ] as const)
    for (const name of Object.keys(parseEnv(await readFile(file, 'utf8')))) assert.ok(name in known, `${file}: ${name}`)
  const text = made.map(([, content]) => content).join('\n')
  assert.doesNotMatch(text, /password/i, 'no part of NATS has a password')
  const node = parseEnv(await readFile(join(at.edge, 'setup.env'), 'utf8'))
  const policy = createUpstreamPolicy({
    deny: networks(node.GATEHOUSE_EDGE_UPSTREAM_DENY ?? ''),
    allow: networks('0.0.0.0/0,::/0'),
    ownPorts: [],
  })
  for (const address of ['127.0.0.1', '127.0.1.1', '::1'])
    assert.match(policy.fault(address, 5432) ?? 'dialed', /operator of the edge denies/, address)
})

test('nats-server accepts the configuration, and one of another installation is not taken for ours', {
  skip,
}, async (t) => {
  const { at } = await newFolders(t)
  const steps = operatorSteps(at, databaseConfig)
  await perform([certificateStep(at, group), ...steps], false)
  const checked = spawnSync('nats-server', ['-t', '-c', join(at.nats, 'nats.conf')], { encoding: 'utf8' })
  assert.equal(checked.status, 0, checked.stderr)

  const conf = join(at.nats, 'operator.conf')
  await writeFile(conf, (await readFile(conf, 'utf8')).replace(/operator: "[^"]+"/, 'operator: "another"'))
  await assert.rejects(perform(steps, false), /operator\.conf is of another installation/)
})

test('what earlier versions left: passwords stay, and a configuration that was never used changes', async (t) => {
  const { at } = await newFolders(t)
  const conf = join(at.nats, 'nats.conf')
  await writeFile(conf, 'listen: "10.0.0.1:4222"\ninclude "authorization.conf"\n')
  await perform(operatorSteps(at, databaseConfig), false)
  assert.equal(await readFile(conf, 'utf8'), 'listen: "10.0.0.1:4222"\ninclude "operator.conf"\n')
  assert.equal(hasPasswords(at), false)
  await writeFile(conf, 'listen: "10.0.0.1:4222"\n')
  await assert.rejects(perform(operatorSteps(at, databaseConfig), false), /Add this line to it/)

  const { at: old } = await newFolders(t)
  await writeFile(join(old.nats, 'nats.env'), 'GATEHOUSE_NATS_CONTROL_PLANE_PASSWORD=p1\n')
  assert.equal(hasPasswords(old), true)
  await writeFile(join(old.edge, 'nats-password'), 'p1\n')
  assert.deepEqual(edgeSteps(old, databaseConfig), [], 'a node with a password does not join by itself')
})

test('--public-url, also later: a certificate for its host, the settings, and NATS listens for other machines', {
  skip,
}, async (t) => {
  const { at } = await newFolders(t)
  const url = 'https://control.example'
  const steps = (publicUrl?: string) => [
    certificateStep(at, group, publicUrl && outsideHost(publicUrl)),
    ...settingsSteps(at),
    ...operatorSteps(at, databaseConfig),
    ...(publicUrl ? publicUrlSteps(at, publicUrl) : []),
  ]
  const file = (path: string) => readFile(path, 'utf8')
  const certificate = async () => new X509Certificate(await file(join(at.nats, 'server.pem')))
  await perform(steps(), false)
  assert.equal((await certificate()).checkHost('control.example'), undefined)
  const [authority, conf] = [await file(join(at.nats, 'ca.pem')), await file(join(at.nats, 'nats.conf'))]
  assert.match(conf, /^listen: "127\.0\.0\.1:4222"$/m)

  await perform(steps(url), false)
  const [signer, changed] = [new X509Certificate(authority), await certificate()]
  assert.ok(changed.checkHost('control.example') && changed.checkHost('localhost') && changed.verify(signer.publicKey))
  assert.equal(await file(join(at.nats, 'ca.pem')), authority, 'nodes trust it')
  assert.equal(await file(join(at.nats, 'nats.conf')), conf.replace('127.0.0.1:4222', '0.0.0.0:4222'))
  const made = parseEnv(await file(join(at.controlPlane, 'setup.env')))
  assert.equal(made.GATEHOUSE_PUBLIC_URL, url)
  assert.equal(made.GATEHOUSE_NATS_PUBLIC_URL, 'tls://control.example:4222')
  assert.equal(made.GATEHOUSE_NATS_URL, 'tls://127.0.0.1:4222')
  for (const step of [...steps(url), ...steps()]) assert.ok(await step.isDone(), step.what)

  await writeFile(join(at.controlPlane, 'gatehouse.env'), 'GATEHOUSE_PUBLIC_URL=https://other.example\n')
  await assert.rejects(perform(steps(url), false), /gatehouse\.env sets GATEHOUSE_PUBLIC_URL.*takes precedence/)
  await rm(join(at.nats, 'ca.key'))
  await assert.rejects(perform(steps('https://new.example'), false), /server\.pem is not for new\.example/)
  assert.deepEqual(
    ['http://127.0.0.1:8080', 'http://localhost', 'http://[::1]:80', 'https://[2001:db8::1]'].map(outsideHost),
    [undefined, undefined, undefined, '2001:db8::1'],
  )
})

test('docs/guides/install-debian.md shows what setup prints', async () => {
  const page = await readFile(new URL('../docs/guides/install-debian.md', import.meta.url), 'utf8')
  const steps = [
    certificateStep(folders, ''),
    ...settingsSteps(folders),
    ...operatorSteps(folders, databaseConfig),
    ...edgeSteps(folders, databaseConfig),
  ]
  for (const { what } of steps) {
    const line = `made     ${what.replace(` localhost, ${hostname()},`, ' localhost, gate,')}\n`
    assert.ok(page.includes(line), line)
  }
})
