// An installation in pods, from an empty database to a request that is served and one that is refused.
import assert from 'node:assert/strict'
import type { ChildProcess } from 'node:child_process'
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { asAppRole } from './app_role.ts'
import { timed } from './debian_machine.ts'
import { createPods, type Pods } from './pods.ts'
import { startPostgres } from './postgres.ts'

// biome-ignore lint/suspicious/noExplicitAny: objects of Kubernetes and of the API, of which we read a few fields.
type Any = any

const local = '127.0.0.1'
const hosts = {
  nats: local,
  // Tenants must not reach these.
  'gatehouse.example.com': local,
  'gatehouse.gatehouse.svc': local,
  'postgres.gatehouse.svc': local,
  'kubernetes.default.svc': local,
}

/** Runs a probe of the manifest, like the kubelet, until it has succeeded once. */
async function becomes(probe: Any, ports: Any[], child: ChildProcess, said: () => string): Promise<void> {
  const { httpGet, tcpSocket } = probe
  const { port, host = local, path = '' } = httpGet ?? tcpSocket
  const number = ports.find(({ name }) => name === port)?.containerPort ?? port
  for (let attempt = 0; attempt < 240; attempt++) {
    if (child.exitCode !== null) throw new Error(`ended with ${child.exitCode}:\n${said()}`)
    const answer = await fetch(`http://${host}:${number}${path}`).catch((error) => error)
    // A tcpSocket probe only checks whether the port accepts connections.
    if (answer.ok || (tcpSocket && answer.cause?.code !== 'ECONNREFUSED')) return
    await setTimeout(250)
  }
  throw new Error(`${path || 'the port'} did not become ready:\n${said()}`)
}

async function startPod(pods: Pods, pod: Any): Promise<ChildProcess> {
  const { initContainers = [], containers } = pod.spec.template.spec
  for (const each of initContainers) await pods.complete(pod, each)
  const child = await pods.start(pod, containers[0])
  let said = ''
  for (const stream of [child.stdout, child.stderr]) stream?.on('data', (data) => (said += data))
  const { readinessProbe, livenessProbe, ports = [] } = containers[0]
  await becomes(readinessProbe, ports, child, () => said)
  if (livenessProbe) await becomes(livenessProbe, ports, child, () => said)
  return child
}

/** The kernel's view of a process's user. */
async function identityOf(pid: number): Promise<Record<string, string>> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8')
  const field = (name: string) => new RegExp(`^${name}:\\s+(\\w+)`, 'm').exec(status)?.[1] ?? ''
  return { user: field('Uid'), capabilities: field('CapEff'), noNewPrivileges: field('NoNewPrivs') }
}

export async function inPods(folder: string): Promise<void> {
  const postgres = await startPostgres()
  const database = postgres.urlOf('gatehouse')
  execFileSync('psql', ['-q', postgres.url, '-c', 'create database gatehouse'])
  const pods = createPods(await readFile(join(folder, 'one-node.yaml'), 'utf8'), folder, hosts)
  const base64 = (text: string) => Buffer.from(text).toString('base64')
  pods.find('Secret', 'gatehouse').data['database-url'] = base64(asAppRole(database))
  pods.find('Secret', 'gatehouse-owner').data['database-owner-url'] = base64(database)

  const migrate = pods.find('Job', 'migrate')
  await timed('migrate is complete', () => pods.complete(migrate, migrate.spec.template.spec.containers[0]))
  const controlPlane = pods.find('Deployment', 'control-plane')
  const running = [await timed('the control plane is ready', () => startPod(pods, controlPlane))]

  // Like kubectl exec: the same container with another command.
  const [container] = controlPlane.spec.template.spec.containers
  const exec = (...args: string[]) => pods.complete(controlPlane, { ...container, args })
  const { token } = JSON.parse(await exec('bootstrap'))
  await exec('nats', 'init', '--root-key', '-')
  const operator = { 'operator.conf': await exec('nats', 'conf') }
  pods.add({ kind: 'ConfigMap', metadata: { name: 'nats-operator' }, data: operator })
  const nats = pods.find('StatefulSet', 'nats')
  nats.spec.template.spec.containers[0].command = ['nats-server']
  running.unshift(await timed('NATS is ready', () => startPod(pods, nats)))
  const [joinToken = ''] = /gatehouse_join_\S+/.exec(await exec('nodes', 'invite', '--name', 'edge-1')) ?? []
  pods.add({ kind: 'Secret', metadata: { name: 'gatehouse-join' }, data: { 'edge-1': base64(joinToken) } })
  const edge = pods.find('DaemonSet', 'edge')
  // There is no ingress here.
  const joining = edge.spec.template.spec.initContainers.find(({ name }: Any) => name === 'join')
  joining.env.push({ name: 'GATEHOUSE_PUBLIC_URL', value: `http://${local}:8080` })
  await refusesLowPorts(pods, edge)
  const node = await timed('the edge node is ready', () => startPod(pods, edge))
  running.unshift(node)
  assert.deepEqual(await identityOf(node.pid ?? 0), {
    user: '10001',
    capabilities: '0000000000000400',
    noNewPrivileges: '1',
  })
  console.log('── the node runs as user 10001 with NET_BIND_SERVICE only, and cannot gain more')

  await timed('an edge is created, a request served and another refused', () => useEdge(token, folder))
  for (const child of running) {
    const exited = once(child, 'exit')
    child.kill('SIGTERM')
    await timed('a pod ends after SIGTERM', () => exited)
  }
  await postgres.stop()
}

/**
 * The control experiment: when started as the user, the process lacks the capability and cannot bind a port below 1024.
 */
async function refusesLowPorts(pods: Pods, edge: Any): Promise<void> {
  const script = `require('node:net').createServer().on('error', ({ code }) => { console.log(code) }).listen(443)`
  const [container] = edge.spec.template.spec.containers
  const output = await pods.complete(edge, {
    ...container,
    command: ['node', '-e', script],
    args: [],
    securityContext: { ...container.securityContext, runAsUser: 10001 },
  })
  assert.equal(output, 'EACCES\n')
  console.log('── without setpriv, port 443 is refused: EACCES')
}

async function useEdge(token: string, folder: string): Promise<void> {
  const call = async (path: string, body: object): Promise<Any> => {
    const response = await fetch(`http://${local}:8080${path}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'service-version': '2', 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
    const answer: Any = await response.json()
    assert.ok(response.ok, JSON.stringify(answer))
    return answer
  }
  const policy = await call('/ip_policies', { description: 'everyone but 127.0.0.9' })
  await call('/ip_policy_rules', { ip_policy_id: policy.id, action: 'allow', cidr: '0.0.0.0/0' })
  await call('/ip_policy_rules', { ip_policy_id: policy.id, action: 'deny', cidr: '127.0.0.9/32' })
  const backend = await call('/backends/http_response', { status_code: 200, body: 'hello' })
  const { id } = await call('/edges/https', { hostports: ['app.example:443'] })
  await call(`/edges/https/${id}/routes?wait=applied`, {
    match_type: 'path_prefix',
    match: '/',
    backend: { backend_id: backend.id },
    ip_restriction: { ip_policy_ids: [policy.id] },
  })
  const authority = join(folder, 'components/one-machine/secrets/ca.pem')
  const statusFrom = (address: string) =>
    execFileSync(
      'curl',
      // biome-ignore format: one command line.
      ['-sS', '-o', '/dev/null', '-w', '%{http_code}', '--interface', address, '--cacert', authority,
        '--connect-to', `app.example:443:${local}:443`, 'https://app.example/'],
      { encoding: 'utf8' },
    )
  assert.deepEqual([statusFrom(local), statusFrom('127.0.0.9')], ['200', '403'])
}
