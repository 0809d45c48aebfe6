// What deploy/ ships: read by the tools that will read it, where they are at hand, and otherwise for what must be in it.
import assert from 'node:assert/strict'
import { execFile, spawn, spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { cp, glob, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { parse } from 'yaml'
import { freePort } from '../dev/ports.ts'
import { createUpstreamPolicy } from '../src/agent/upstreams/policy.ts'
import { controlPlaneHosts, ownPorts } from '../src/commands/edge_node/settings.ts'
import { openSecretsBox } from '../src/commands/secrets_key.ts'
import { type Config, readEdgeConfig } from '../src/config/config.ts'
import { edgeSettings } from '../src/config/edge.ts'
import { settings } from '../src/config/server.ts'
import { newNatsOperator } from '../src/fleet/nats_accounts.ts'
import { operatorConf } from '../src/fleet/nats_config.ts'
import { stop } from './harness/control_plane.ts'

const root = new URL('..', import.meta.url).pathname
const read = (file: string) => readFile(join(root, 'deploy', file), 'utf8')
const run = promisify(execFile)

// biome-ignore lint/suspicious/noExplicitAny: documents of many kinds; what matters in them is asserted.
type Any = any

const known = (names: object) => new Set(Object.keys(names).flatMap((name) => [name, `${name}_FILE`]))
const ofControlPlane = known(settings)
const ofEdge = known(edgeSettings)
const assertKnown = (names: Iterable<string>, allowed: Set<string>, where: string) => {
  for (const name of names)
    assert.ok(!name.startsWith('GATEHOUSE_') || allowed.has(name), `${where} sets ${name}, which nothing reads`)
}

// The exposure that `systemd-analyze security` finds, from 0 (none) to 10, times ten.
for (const [unit, threshold, allowed] of [
  ['gatehouse.service', 15, ofControlPlane],
  ['gatehouse-migrate.service', 15, ofControlPlane],
  ['gatehouse-backup.service', 25, ofControlPlane],
  ['gatehouse-edge.service', 20, ofEdge],
  ['gatehouse-nats.service', 15, new Set<string>()],
] as const) {
  test(`${unit} is accepted by systemd and sandboxed`, async (t) => {
    if (spawnSync('systemd-analyze', ['--version']).error) return t.skip('systemd-analyze is not installed')
    const folder = await mkdtemp(join(tmpdir(), 'gatehouse-units-'))
    t.after(() => rm(folder, { recursive: true }))
    const text = await read(`systemd/${unit}`)
    const file = join(folder, unit)
    // verify wants the programs to be there, which are installed elsewhere or not at all, and the units that a unit names.
    for (const each of await Array.fromAsync(glob('*.service', { cwd: join(root, 'deploy/systemd') }))) {
      const installed = (await read(`systemd/${each}`)).replaceAll(/^(Exec\w+)=\+?\S+/gm, '$1=/bin/true')
      await writeFile(join(folder, each), installed)
    }
    const verified = spawnSync('systemd-analyze', ['verify', '--man=no', file], { encoding: 'utf8' })
    assert.deepEqual([verified.status, verified.stderr], [0, ''])
    const judged = spawnSync(
      'systemd-analyze',
      ['security', '--offline=true', '--no-pager', `--threshold=${threshold}`, file],
      { encoding: 'utf8' },
    )
    console.log(judged.stdout.trim().split('\n').at(-1))
    assert.equal(judged.status, 0, judged.stdout)
    assertKnown(text.match(/GATEHOUSE_\w+(?==)/g) ?? [], allowed, unit)
  })
}

test('every unit is started again until it works, except after exit code 2, and none depends on the migration', async () => {
  for (const [unit, restart, retriesAll] of [
    ['gatehouse.service', 'always', false],
    ['gatehouse-migrate.service', 'on-failure', false],
    ['gatehouse-backup.service', 'on-failure', false],
    ['gatehouse-edge.service', 'always', false],
    ['gatehouse-nats.service', 'always', true],
  ] as const) {
    const text = await read(`systemd/${unit}`)
    const setting = (key: string) => new RegExp(`^${key}=(.*)$`, 'm').exec(text)?.[1]
    // Without the last, systemd gives up after five starts in ten seconds.
    assert.deepEqual([setting('Restart'), setting('StartLimitIntervalSec')], [restart, '0'], unit)
    assert.equal(setting('RestartPreventExitStatus'), retriesAll ? undefined : '2', unit)
    assert.ok(Number(setting('RestartSec')) >= 1, unit)
    assert.doesNotMatch(
      text,
      /^(Requires|BindsTo|PartOf|Requisite)=/m,
      `${unit} would stop, or not start, with another`,
    )
  }
})

test('our services in compose.yaml are unprivileged and set only known settings', async () => {
  const compose = parse(await read('compose/compose.yaml'), { merge: true })
  const { services } = compose as Any
  for (const name of ['migrate', 'control-plane', 'join-edge-1', 'edge-1', 'nats']) {
    const { read_only, cap_drop, security_opt, user } = services[name]
    assert.deepEqual([read_only, cap_drop, security_opt], [true, ['ALL'], ['no-new-privileges:true']], name)
    assert.match(user, /^10001:/, name)
  }
  assertKnown(Object.keys(services['control-plane'].environment), ofControlPlane, 'compose.yaml')
  assertKnown(Object.keys(services.backup.environment), ofControlPlane, 'compose.yaml')
  assertKnown(Object.keys(services['edge-1'].environment), ofEdge, 'compose.yaml')
  // The node learns the ports when it joins, and keeps that on its volume.
  assert.deepEqual(services['edge-1'].ports.slice(-1), [
    `${services['control-plane'].environment.GATEHOUSE_TCP_PORTS}:20000-20099`,
  ])
  const [volume] = services['join-edge-1'].volumes
  assert.ok(services['edge-1'].volumes.includes(volume))
  assert.ok(services['join-edge-1'].command.includes(`--settings=${volume.split(':')[1]}/joined.env`))
  const shared = services['join-edge-1'].networks.filter((name: string) => services['edge-1'].networks.includes(name))
  assert.deepEqual(shared, [], 'the node itself cannot reach the API')
})

test("row 18: only migrate and backup get the table owner's password, and migrate grants rights to the role of serve", async () => {
  const { services } = parse(await read('compose/compose.yaml'), { merge: true }) as Any
  const withOwner = Object.keys(services).filter((name) => services[name].secrets?.includes('database-owner-url'))
  assert.deepEqual(withOwner, ['migrate', 'backup'])
  assert.ok(!services['control-plane'].secrets.includes('postgres-password'))
  const { GATEHOUSE_DATABASE_APP_ROLE: role } = services.migrate.environment
  assert.match(await read('compose/prepare.sh'), new RegExp(`postgresql://${role}:.*>database-url`))
  assert.match(await read('compose/app-role.sh'), new RegExp(`create role ${role} login`))

  assert.doesNotMatch(await read('systemd/gatehouse.service'), /owner-url/)
  assert.match(await read('systemd/gatehouse-migrate.service'), new RegExp(`owner-url.*APP_ROLE=${role}`))
  for (const file of ['control-plane.yaml', 'edge.yaml'])
    assert.doesNotMatch(await read(`kubernetes/base/${file}`), /gatehouse-owner|owner-url/, file)
  assert.match(await read('kubernetes/base/migrate.yaml'), new RegExp(`APP_ROLE, value: ${role}[^]*gatehouse-owner`))
})

// biome-ignore lint/suspicious/noTemplateCurlyInString: as compose.yaml has it.
const expectedGroup = '${GATEHOUSE_SECRETS_GROUP:-10001}'

/** The policy of an edge node with these settings, where hosts of the control plane have these addresses. */
function upstreamPolicyOf(environment: Record<string, string>, addresses: Record<string, string> = {}) {
  const config = readEdgeConfig({ GATEHOUSE_EDGE_NODE: 'edge-1', GATEHOUSE_EDGE_TRUSTED_KEYS: 'key', ...environment })
  return createUpstreamPolicy({
    deny: config.GATEHOUSE_EDGE_UPSTREAM_DENY,
    allow: config.GATEHOUSE_EDGE_UPSTREAM_ALLOW,
    ownPorts: ownPorts(config),
    ownAddresses: () => [],
    services: () =>
      controlPlaneHosts(config).map(({ host, ports }) => ({ address: addresses[host] ?? assert.fail(host), ports })),
  })
}

test('in compose, the edge node shares no network with PostgreSQL and the API, and dials none of ours for tenants', async () => {
  const { services, networks } = parse(await read('compose/compose.yaml'), { merge: true }) as Any
  const peersOf = (name: string) =>
    Object.keys(services).filter((peer) =>
      services[peer].networks.some((network: string) => peer !== name && services[name].networks.includes(network)),
    )
  assert.deepEqual(peersOf('edge-1'), ['nats'])
  assert.deepEqual(peersOf('postgres').sort(), ['backup', 'control-plane', 'migrate'])
  assert.deepEqual(Object.keys(networks).sort(), ['control', 'database', 'records', 'traffic'])
  const { GATEHOUSE_NATS_PASSWORD_FILE: _, ...environment } = services['edge-1'].environment
  const { fault } = upstreamPolicyOf(environment, { nats: '10.231.2.2' })
  for (const { ipam } of Object.values(networks) as Any[])
    for (const last of ['1', '2', '254'])
      assert.ok(fault(ipam.config[0].subnet.replace(/0\/24$/, last), 5432), `${ipam.config[0].subnet} ${last}`)
  assert.equal(fault('192.168.1.20', 8080), undefined)
})

test('prepare.sh makes what compose.yaml mounts, and nats-server starts with it in operator mode', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-compose-'))
  t.after(() => rm(folder, { recursive: true }))
  await cp(join(root, 'deploy'), folder, { recursive: true, filter: (file) => !file.endsWith('/secrets') })
  const prepare = join(folder, 'compose/prepare.sh')
  await run(prepare)
  const password = await readFile(join(folder, 'compose/secrets/postgres-password'), 'utf8')
  await run(prepare)
  assert.equal(await readFile(join(folder, 'compose/secrets/postgres-password'), 'utf8'), password, 'created again')

  const compose = parse(await read('compose/compose.yaml'), { merge: true }) as Any
  const files = [
    ...Object.values(compose.secrets).map(({ file }: Any) => file),
    ...Object.values(compose.services).flatMap(({ volumes = [] }: Any) => [
      ...volumes.map((volume: string) => volume.split(':')[0] ?? '').filter((source: string) => source.startsWith('.')),
    ]),
  ]
  assert.ok(files.length > 8)
  for (const file of files) assert.ok(existsSync(join(folder, 'compose', file)), `${file} is not there`)

  const secrets = join(folder, 'compose/secrets')
  // The container's process is neither the owner nor everyone else, so it must be in the group.
  const key = join(secrets, compose.services['control-plane'].environment.GATEHOUSE_SECRETS_KEY_FILE.split('/').at(-1))
  const { mode, gid } = await stat(key)
  assert.equal(mode & 0o777, 0o640)
  assert.deepEqual(compose.services['control-plane'].group_add, [expectedGroup])
  assert.equal(await readFile(join(folder, 'compose/.env'), 'utf8'), `GATEHOUSE_SECRETS_GROUP=${gid}\n`)
  assert.equal(openSecretsBox({ GATEHOUSE_SECRETS_KEY_FILE: key } as Config)?.keyIds.length, 1)
  const port = await freePort()
  const conf = (await read('nats/nats.conf'))
    .replace('0.0.0.0:4222', `127.0.0.1:${port}`)
    .replaceAll('/etc/gatehouse-nats/server.', `${secrets}/nats-server.`)
    .replace('/var/lib/gatehouse-nats', join(folder, 'jetstream'))
  await writeFile(join(folder, 'nats/nats.conf'), conf)
  const { operator } = newNatsOperator(Date.now())
  await writeFile(join(folder, 'nats/operator.conf'), operatorConf(operator, join(folder, 'accounts'), Date.now()))
  const nats = spawn('nats-server', ['-c', join(folder, 'nats/nats.conf')])
  t.after(() => stop(nats, 'SIGKILL'))
  const lines: string[] = []
  await new Promise<void>((resolve, reject) => {
    createInterface({ input: nats.stderr }).on('line', (line) => {
      lines.push(line)
      if (line.includes('Server is ready')) resolve()
    })
    nats.once('exit', () => reject(new Error(lines.join('\n'))))
  })
  const hostname = ['-verify_hostname', 'nats', join(secrets, 'nats-server.pem')]
  await run('openssl', ['verify', '-CAfile', join(secrets, 'ca.pem'), ...hostname])
})

test('stopping an edge node waits for the drain, and load balancers notice in time', async () => {
  const [delay, deadline] = [
    Number(edgeSettings.GATEHOUSE_EDGE_DRAIN_DELAY_SECONDS.default),
    Number(edgeSettings.GATEHOUSE_EDGE_DRAIN_DEADLINE_SECONDS.default),
  ]
  const unit = await read('systemd/gatehouse-edge.service')
  const compose = parse(await read('compose/compose.yaml'), { merge: true }) as Any
  const pod = (parse(await read('kubernetes/base/edge.yaml')) as Any).spec.template.spec
  const waits = {
    systemd: Number(/^TimeoutStopSec=(\d+)$/m.exec(unit)?.[1]),
    compose: Number(/^(\d+)s$/.exec(compose.services['edge-1'].stop_grace_period)?.[1]),
    kubernetes: pod.terminationGracePeriodSeconds,
  }
  // HAProxy has five more seconds to end when the deadline is over.
  for (const [where, seconds] of Object.entries(waits))
    assert.ok(seconds >= delay + deadline + 10, `${where} ${seconds}`)
  const guide = await readFile(join(root, 'docs/operate/drain-edge-nodes.md'), 'utf8')
  assert.ok(guide.includes(`\`TimeoutStopSec=${waits.systemd}\``))
  assert.ok(guide.includes(`\`stop_grace_period: ${waits.compose}s\``))
  assert.ok(guide.includes(`\`terminationGracePeriodSeconds: ${waits.kubernetes}\``))
  // Anything else would kill HAProxy when the agent has ended with SIGHUP.
  assert.match(unit, /^KillMode=process$/m)
  assert.match(unit, /^ExecReload=\/bin\/kill -HUP \$MAINPID$/m)
  const { httpGet, periodSeconds, failureThreshold } = pod.containers[0].readinessProbe
  const { host, port } = edgeSettings.GATEHOUSE_EDGE_STATUS_LISTEN.parse(
    edgeSettings.GATEHOUSE_EDGE_STATUS_LISTEN.default ?? '',
  )
  assert.deepEqual(httpGet, { host, port, path: '/readyz' })
  assert.ok(periodSeconds * failureThreshold < delay)
})

test('the Dockerfile copies existing files and ends unprivileged', async () => {
  const lines = (await read('Dockerfile')).split('\n')
  for (const line of lines.filter((text) => /^COPY (?!--from)/.test(text))) {
    const sources = line.split(' ').slice(1, -1)
    for (const source of sources) assert.ok(existsSync(join(root, source)), `${line}: ${source} is not there`)
  }
  for (const stage of ['control-plane', 'edge']) {
    const from = lines.findIndex((line) => line.endsWith(` AS ${stage}`))
    const end = lines.findIndex((line, index) => index > from && line.startsWith('FROM '))
    assert.ok(lines.slice(from, end < 0 ? undefined : end).includes('USER 10001:10001'), stage)
  }
  assert.ok(existsSync(join(root, dirname('deploy/Dockerfile'), 'Dockerfile.dockerignore')))
  // As src/backup/programs.ts names them.
  const install = lines.find((line) => line.startsWith('RUN apt-get') && line.includes('postgresql-client')) ?? ''
  assert.match(install, / age postgresql-client /)
})

test('an image is built without what is not in the repository, such as secrets and backups', async () => {
  const linesOf = (text: string) => text.split('\n').filter(Boolean)
  const ignored = new Set(linesOf(await read('Dockerfile.dockerignore')))
  for (const entry of linesOf(await readFile(join(root, '.gitignore'), 'utf8'))) {
    const path = entry.replace(/\/$/, '')
    // Without a slash inside, git means every folder, and Docker only the first.
    assert.ok(ignored.has(path.includes('/') ? path : `**/${path}`), entry)
  }
})
