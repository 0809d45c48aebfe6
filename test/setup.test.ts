// The files that `gatehouse setup` makes, in folders of ours. `npm run drill -- install` runs the whole command.
import assert from 'node:assert/strict'
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdir, mkdtemp, readdir, readFile, rm, stat } from 'node:fs/promises'
import { hostname, tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { parseEnv } from 'node:util'
import { createUpstreamPolicy } from '../src/agent/upstreams/policy.ts'
import { edgeSettings } from '../src/config/edge.ts'
import { settings } from '../src/config/server.ts'
import { networks } from '../src/config/values.ts'
import { edgeFileSteps, folders, natsSteps, settingsSteps } from '../src/setup/files.ts'
import { perform } from '../src/setup/step.ts'

test('setup writes files once, secrets for root only, and a certificate that its authority signed', async (t) => {
  if (spawnSync('openssl', ['version']).error) return t.skip('openssl is not installed')
  const root = await mkdtemp(join(tmpdir(), 'gatehouse-setup-test-'))
  t.after(() => rm(root, { recursive: true }))
  const at = { controlPlane: join(root, 'gatehouse'), nats: join(root, 'nats'), edge: join(root, 'edge') }
  for (const folder of Object.values(at)) await mkdir(folder)
  const group = execFileSync('id', ['-gn'], { encoding: 'utf8' }).trim()
  const steps = [
    ...natsSteps(at, group),
    ...settingsSteps(at, 'https://gatehouse.example'),
    ...edgeFileSteps(at, 'https://gate.example', async () => 'ed25519:key'),
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
  for (const step of steps) {
    assert.ok(await step.isDone(), step.what)
    await assert.rejects(async () => step.run(), { code: 'EEXIST' }, `${step.what} overwrites`)
  }

  const open = [
    'edge/nats-ca.pem',
    'edge/setup.env',
    'gatehouse/nats-ca.pem',
    'gatehouse/setup.env',
    'nats/ca.pem',
    'nats/server.pem',
  ]
  for (const [path = ''] of made) {
    const { mode } = await stat(join(root, path))
    const expected = open.includes(path) ? 0o644 : path === 'nats/server.key' ? 0o640 : 0o600
    assert.equal(mode & 0o777, expected, path)
  }
  execFileSync('openssl', [
    'verify',
    '-CAfile',
    join(at.edge, 'nats-ca.pem'),
    '-verify_hostname',
    'localhost',
    join(at.nats, 'server.pem'),
  ])
  const passwords = parseEnv(await readFile(join(at.nats, 'nats.env'), 'utf8'))
  assert.equal(await readFile(join(at.edge, 'nats-password'), 'utf8'), `${passwords.GATEHOUSE_NATS_EDGE_1_PASSWORD}\n`)
  for (const [file, known] of [
    [join(at.controlPlane, 'setup.env'), settings],
    [join(at.edge, 'setup.env'), edgeSettings],
  ] as const)
    for (const name of Object.keys(parseEnv(await readFile(file, 'utf8')))) assert.ok(name in known, `${file}: ${name}`)
  const node = parseEnv(await readFile(join(at.edge, 'setup.env'), 'utf8'))
  assert.equal(node.GATEHOUSE_EDGE_CONTROL_PLANE_HOSTS, 'gate.example')
  const policy = createUpstreamPolicy({
    deny: networks(node.GATEHOUSE_EDGE_UPSTREAM_DENY ?? ''),
    allow: networks('0.0.0.0/0,::/0'),
    ownPorts: [],
  })
  for (const address of ['127.0.0.1', '127.0.1.1', '::1'])
    assert.match(policy.fault(address, 5432) ?? 'dialed', /operator of the edge denies/, address)
})

test('docs/guides/install-debian.md shows what setup prints', async () => {
  const page = await readFile(new URL('../docs/guides/install-debian.md', import.meta.url), 'utf8')
  const steps = [
    ...natsSteps(folders, ''),
    ...settingsSteps(folders, ''),
    ...edgeFileSteps(folders, '', async () => 'ed25519:key'),
  ]
  for (const { what } of steps) {
    const line = `made     ${what.replace(` and ${hostname()},`, ' and gate,')}\n`
    assert.ok(page.includes(line), line)
  }
})
