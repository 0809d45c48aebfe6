// The manifests of deploy/kubernetes, as kustomize renders each overlay. `npm run drill -- pods` runs their containers.
import assert from 'node:assert/strict'
import { execFile, spawnSync } from 'node:child_process'
import { cp, glob, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { promisify } from 'node:util'
import { parseAllDocuments } from 'yaml'
import { createUpstreamPolicy } from '../src/agent/upstreams/policy.ts'
import { controlPlaneHosts, ownPorts } from '../src/commands/edge_node/settings.ts'
import { nodeNameFlag } from '../src/commands/node_name.ts'
import { joinedEnvironment, readEdgeConfig } from '../src/config/config.ts'
import { edgeSettings } from '../src/config/edge.ts'
import { settings } from '../src/config/server.ts'

const root = new URL('..', import.meta.url).pathname
const run = promisify(execFile)
const overlays = ['development', 'high-availability', 'one-node'] as const
type Overlay = (typeof overlays)[number]

// biome-ignore lint/suspicious/noExplicitAny: documents of many kinds; what matters in them is asserted.
type Any = any

const folder = await mkdtemp(join(tmpdir(), 'gatehouse-kubernetes-'))
after(() => rm(folder, { recursive: true }))
const rendered = new Map<Overlay, Any[]>()
const skip = spawnSync('kustomize', ['version']).error ? "kustomize is not there: 'npm run engines'" : false

before(async () => {
  await cp(join(root, 'deploy/kubernetes'), folder, {
    recursive: true,
    filter: (source) => !source.endsWith('/secrets'),
  })
  await run(join(root, 'deploy/compose/prepare.sh'), [join(folder, 'components/one-machine/secrets')])
  if (skip) return
  for (const overlay of overlays) {
    const { stdout } = await run('kustomize', ['build', join(folder, 'overlays', overlay)])
    rendered.set(
      overlay,
      parseAllDocuments(stdout).map((document) => document.toJS()),
    )
  }
})

const of = (overlay: Overlay, kind: string, name?: string): Any[] =>
  (rendered.get(overlay) ?? []).filter((each) => each.kind === kind && (!name || each.metadata.name === name))
const podOf = (overlay: Overlay, kind: string, name: string): Any => of(overlay, kind, name)[0].spec.template.spec
/** `edge join` reads the token. */
const known = new Set(
  [...Object.keys({ ...settings, ...edgeSettings }), 'GATEHOUSE_JOIN_TOKEN'].flatMap((name) => [name, `${name}_FILE`]),
)

for (const overlay of overlays) {
  test(`${overlay}: every pod is hardened, and what it refers to exists`, { skip }, () => {
    const objects = rendered.get(overlay) ?? []
    const named = (kind: string) => objects.filter((each) => each.kind === kind).map(({ metadata }) => metadata.name)
    // Made by hand, as the guide says: what the control plane prints, and all secrets unless everything is on one machine.
    const byHand = [
      'gatehouse-join',
      'nats-operator',
      ...(overlay === 'high-availability' ? ['gatehouse', 'gatehouse-owner', 'gatehouse-certificates'] : []),
    ]
    const there = new Set([...named('ConfigMap'), ...named('Secret'), ...byHand])
    const pods = objects.filter(({ spec }) => spec?.template)
    assert.ok(pods.length >= 3)
    for (const { kind, metadata, spec } of pods) {
      const { automountServiceAccountToken, initContainers = [], containers, volumes } = spec.template.spec
      const name = `${kind} ${metadata.name}`
      assert.equal(automountServiceAccountToken, false, name)
      if (spec.selector) assert.deepEqual(spec.selector.matchLabels, spec.template.metadata.labels, name)
      const ofVolumes = new Map(volumes.map((volume: Any) => [volume.name, volume]))
      for (const volume of volumes) {
        for (const { secret, configMap } of volume.projected?.sources ?? [volume]) {
          const source = secret?.secretName ?? secret?.name ?? configMap?.name
          if (source) assert.ok(there.has(source), `${name} mounts ${source}`)
        }
      }
      for (const claim of spec.volumeClaimTemplates ?? []) ofVolumes.set(claim.metadata.name, claim)
      for (const { securityContext: own, env = [], envFrom = [], volumeMounts } of [...initContainers, ...containers]) {
        const isHardened = [own.readOnlyRootFilesystem, own.allowPrivilegeEscalation, own.capabilities.drop]
        assert.deepEqual(isHardened, [true, false, ['ALL']], name)
        for (const mount of volumeMounts) assert.ok(ofVolumes.has(mount.name), `${name} mounts ${mount.name}`)
        for (const from of envFrom) assert.ok(there.has(from.configMapRef?.name ?? from.secretRef.name), name)
        for (const { name: setting } of env)
          assert.ok(!setting.startsWith('GATEHOUSE_') || known.has(setting), `${name} sets ${setting}`)
      }
    }
    for (const { data } of of(overlay, 'ConfigMap'))
      for (const setting of Object.keys(data))
        assert.ok(!setting.startsWith('GATEHOUSE_') || known.has(setting), `${setting} is not read`)
  })
}

test('every container but those of the node starts as a user without rights', { skip }, () => {
  for (const overlay of overlays)
    for (const { metadata, spec } of (rendered.get(overlay) ?? []).filter((each) => each.spec?.template)) {
      const { securityContext, initContainers = [], containers } = spec.template.spec
      const added = [...initContainers, ...containers].map((each: Any) => each.securityContext.capabilities.add ?? [])
      if (metadata.name === 'edge') assert.deepEqual(added, [['CHOWN'], [], ['NET_BIND_SERVICE', 'SETUID', 'SETGID']])
      else assert.deepEqual([securityContext.runAsNonRoot, added.flat()], [true, []], metadata.name)
    }
})

test('a control plane of three has as many copies of its records in NATS, and two of them stay during maintenance', {
  skip,
}, () => {
  const overlay = 'high-availability'
  const [{ data }] = of(overlay, 'ConfigMap')
  const [{ spec: scaler }] = of(overlay, 'HorizontalPodAutoscaler')
  const [{ spec: budget }] = of(overlay, 'PodDisruptionBudget')
  assert.deepEqual([data.GATEHOUSE_NATS_REPLICAS, scaler.minReplicas, budget.minAvailable], ['3', 3, 2])
  // A number here would undo what the autoscaler decided, with every apply.
  assert.equal(of(overlay, 'Deployment', 'control-plane')[0].spec.replicas, undefined)
})

test('every port that a PodMonitor names exists', { skip }, () => {
  for (const { spec } of of('high-availability', 'PodMonitor')) {
    const pods = (rendered.get('high-availability') ?? []).filter((each) => each.spec?.template)
    const [wanted] = Object.values(spec.selector.matchLabels)
    const pod = pods.find((each) => Object.values(each.spec.template.metadata.labels).includes(wanted))
    const ports = pod.spec.template.spec.containers[0].ports.map(({ name }: Any) => name)
    assert.ok(ports.includes(spec.podMetricsEndpoints[0].port))
  }
})

test('neither the control plane nor the API of Kubernetes is dialed for tenants, and other services are', {
  skip,
}, () => {
  const { containers } = podOf('high-availability', 'DaemonSet', 'edge')
  const environment = { ...of('high-availability', 'ConfigMap')[0].data }
  for (const { name, value } of containers[0].env) if (value && !name.endsWith('_FILE')) environment[name] = value
  const config = readEdgeConfig({ GATEHOUSE_EDGE_NODE: 'edge-1', GATEHOUSE_EDGE_TRUSTED_KEYS: 'key', ...environment })
  const addresses: Record<string, string> = {
    nats: '10.96.14.2',
    'gatehouse.example.com': '203.0.113.10',
    'gatehouse.gatehouse.svc': '10.96.20.7',
    'postgres.gatehouse.svc': '10.96.3.3',
    'kubernetes.default.svc': '10.96.0.1',
  }
  const { fault } = createUpstreamPolicy({
    deny: config.GATEHOUSE_EDGE_UPSTREAM_DENY,
    allow: config.GATEHOUSE_EDGE_UPSTREAM_ALLOW,
    ownPorts: ownPorts(config),
    ownAddresses: () => [],
    services: () =>
      controlPlaneHosts(config).map(({ host, ports }) => ({ address: addresses[host] ?? assert.fail(host), ports })),
  })
  for (const [address, port] of [
    ['10.96.14.2', 4222],
    ['10.96.14.2', 8222],
    ['203.0.113.10', 443],
    ['10.96.20.7', 80],
    ['10.96.3.3', 5432],
    ['10.96.0.1', 443],
  ] as const)
    assert.match(fault(address, port) ?? 'dialed', /of the control plane/, `${address}:${port}`)
  assert.equal(fault('10.96.44.4', 80), undefined, "a tenant's service")
})

test('only those who must reach the control plane and PostgreSQL', { skip }, () => {
  const labelsOf = (kind: string, name: string) => of('one-node', kind, name)[0].spec.template.metadata.labels
  const [control, postgres] = ['control-plane', 'postgres'].map((name) => of('one-node', 'NetworkPolicy', name)[0].spec)
  assert.deepEqual(control.podSelector.matchLabels, labelsOf('Deployment', 'control-plane'))
  assert.ok(control.ingress.every(({ from, ports }: Any) => from?.length > 0 && ports[0].port === 'http'))
  assert.deepEqual(postgres.podSelector.matchLabels, labelsOf('StatefulSet', 'postgres'))
  assert.deepEqual(
    postgres.ingress[0].from.map(({ podSelector }: Any) => podSelector.matchLabels),
    [labelsOf('Deployment', 'control-plane'), labelsOf('Job', 'migrate')],
  )
  for (const policy of [control, postgres]) assert.deepEqual(policy.policyTypes, ['Ingress'])
})

test('every key of a secret that is read is one that the base says to make', async () => {
  const base = join(folder, 'base')
  const made = (await readFile(join(base, 'kustomization.yaml'), 'utf8')).matchAll(/--from-file=([\w.-]+)/g)
  const keys = new Set([...made].map(([, key]) => key))
  const used = new Set<string>()
  for await (const file of glob('*.yaml', { cwd: base }))
    for (const [, key = ''] of (await readFile(join(base, file), 'utf8')).matchAll(
      /[=\s]\/etc\/gatehouse\/secrets\/([\w.-]+)/g,
    ))
      used.add(key)
  assert.deepEqual([...used].sort(), [...keys].sort())
  assert.ok(used.has('secrets-key'))
})

test('a node joins with the token of its machine, under a name that NATS takes, and keeps what it gets', {
  skip,
}, async () => {
  const guide = await readFile(join(root, 'docs/guides/install-kubernetes.md'), 'utf8')
  for (const overlay of overlays) {
    const { initContainers, containers, volumes } = podOf(overlay, 'DaemonSet', 'edge')
    const { args, env, volumeMounts } = initContainers.find(({ name }: Any) => name === 'join')
    const [token, state] = ['GATEHOUSE_JOIN_TOKEN_FILE', 'state'].map(
      (wanted) => [...env, ...volumeMounts].find(({ name }: Any) => name === wanted) ?? assert.fail(wanted),
    )
    assert.equal(token.value, '/etc/gatehouse/join/$(MACHINE)')
    assert.ok(args.includes('--name=$(MACHINE)') && args.includes('--if-needed'), overlay)
    assert.ok(args.includes(`--settings=${state.mountPath}/joined.env`), overlay)
    assert.deepEqual(
      containers[0].volumeMounts.find(({ name }: Any) => name === 'state'),
      state,
    )
    const { secretName } = volumes.find(({ name }: Any) => name === 'join').secret
    assert.ok(guide.includes(`create secret generic ${secretName} --from-file=`))
    // In clear only where there is no way out of the machine.
    assert.equal(args.includes('--allow-http'), overlay === 'development')
  }
  assert.equal(nodeNameFlag('ip-10-0-1-2.ec2.internal'), 'ip-10-0-1-2-ec2-internal')
})

test('a node reads what it got when it joined from its folder, and its own environment takes precedence', async () => {
  const GATEHOUSE_EDGE_FOLDER = join(folder, 'state')
  await mkdir(GATEHOUSE_EDGE_FOLDER)
  const joined = 'GATEHOUSE_EDGE_NODE=edge-7\nGATEHOUSE_EDGE_TRUSTED_KEYS=key\nGATEHOUSE_TCP_PORTS=20000-20099\n'
  await writeFile(join(GATEHOUSE_EDGE_FOLDER, 'joined.env'), joined)
  const own = { GATEHOUSE_EDGE_FOLDER, GATEHOUSE_EDGE_NODE: 'machine', GATEHOUSE_TCP_PORTS: '30000-30009' }
  const config = readEdgeConfig(joinedEnvironment({ ...own, GATEHOUSE_EDGE_TRUSTED_KEYS: '' }))
  assert.equal(config.GATEHOUSE_EDGE_NODE, 'edge-7', 'NATS knows it by this name')
  assert.deepEqual(config.GATEHOUSE_TCP_PORTS, { first: 30_000, last: 30_009 })
  assert.deepEqual(config.GATEHOUSE_EDGE_TRUSTED_KEYS, ['key'])
})
