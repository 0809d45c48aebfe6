// Row 1 of the experience review: a NATS that cannot be reached is named with its reason, in the log, in probes and metrics.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { startNats } from '../dev/nats.ts'
import { createNatsLink } from '../src/distribution/nats_connection.ts'
import { type ServeProcess, startControlPlane } from './harness/control_plane.ts'
import { startInstallation } from './harness/edge.ts'
import { poll } from './harness/poll.ts'

const firstProcess = ({ processes: [first] }: { processes: readonly ServeProcess[] }) => first ?? assert.fail()
const ready = async ({ origin }: ServeProcess) => {
  const response = await fetch(`${origin}/readyz`)
  return { status: response.status, body: (await response.json()) as { status: string; warnings?: string[] } }
}
const connectedMetric = async ({ origin }: ServeProcess) =>
  /^gatehouse_nats_connected (\d)$/m.exec(await (await fetch(`${origin}/metrics`)).text())?.[1]
const lineWith = ({ log }: Pick<ServeProcess, 'log'>, text: string) =>
  poll(() => log.find(({ msg }) => String(msg).includes(text)))

async function certificateFor(t: TestContext, name: string) {
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-nats-tls-'))
  t.after(() => rm(folder, { recursive: true, force: true }))
  const [certFile, keyFile] = [join(folder, 'nats.pem'), join(folder, 'nats.key')]
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-keyout', keyFile]
  const names = ['-subj', `/CN=${name}`, '-addext', `subjectAltName=DNS:${name}`]
  execFileSync('openssl', ['req', '-x509', ...key, ...names, '-out', certFile, '-days', '2'], { stdio: 'ignore' })
  return { certFile, keyFile }
}

test('row 1: serve names a certificate for another host, and stays ready with a warning', async (t) => {
  const tls = await certificateFor(t, 'nats')
  const nats = await startNats({ tls })
  t.after(() => nats.stop())
  const url = nats.url.replace('nats://', 'tls://')
  const env = { ...nats.controlPlane, GATEHOUSE_NATS_URL: url, GATEHOUSE_NATS_CA_FILE: tls.certFile }
  const server = firstProcess(await startControlPlane(t, { env }))
  const line = await lineWith(server, 'cannot reach NATS')
  assert.ok(String(line?.msg).startsWith(`cannot reach NATS ${url}: `), line?.msg)
  assert.match(String(line?.msg), /: certificate is for "nats", not 127\.0\.0\.1 \(attempt 1\)$/)
  assert.equal(line?.level, 'warn')
  const { status, body } = await ready(server)
  assert.deepEqual([status, body.status], [200, 'ready'])
  assert.match(body.warnings?.[0] ?? '', /^cannot reach NATS tls:.*cert.*\(attempt \d+\)$/)
  assert.equal(await connectedMetric(server), '0')
  // The attempts go on; the log has one line for them until a minute has passed.
  await poll(async () => /attempt [3-9]/.test((await ready(server)).body.warnings?.[0] ?? ''))
  assert.equal(server.log.filter(({ msg }) => String(msg).includes('cannot reach NATS')).length, 1)
})

test('row 1: a wrong password is named, by serve and by an edge node, and never printed', async (t) => {
  const { nats, startEdge, ...plane } = await startInstallation(t)
  const password = 'not-the-password'
  const other = await startControlPlane(t, { env: { ...nats.controlPlane, GATEHOUSE_NATS_PASSWORD: password } })
  const refused = await lineWith(firstProcess(other), 'cannot reach NATS')
  assert.match(String(refused?.msg), new RegExp(`^cannot reach NATS ${nats.url}: .*authorization violation`, 'i'))

  const edge = await startEdge({ cutOff: true, env: { GATEHOUSE_NATS_PASSWORD: password } })
  const line = await poll(() => edge.log.find(({ msg }) => String(msg).includes('cannot reach NATS')))
  assert.match(String(line?.msg), /authorization violation.*\(attempt 1\)$/i)
  const status = (await (await fetch(`${edge.statusUrl}/status`)).json()) as Record<string, unknown>
  assert.equal(status.connected, false)
  assert.match(String(status.natsFault), /^cannot reach NATS/)
  assert.match(await (await fetch(`${edge.statusUrl}/metrics`)).text(), /^gatehouse_edge_connected 0$/m)
  for (const log of [firstProcess(other).log, edge.log]) assert.ok(!JSON.stringify(log).includes(password))

  // The right one works, and a lost connection is reported like one that was never made.
  const server = firstProcess(plane)
  await lineWith(server, 'connected to NATS')
  assert.equal(await connectedMetric(server), '1')
  await nats.stop('SIGKILL')
  await lineWith(server, 'the connection was lost')
  assert.equal(await connectedMetric(server), '0')
  assert.equal((await ready(server)).body.warnings?.length, 1)
  await nats.restart()
  await poll(async () => (await connectedMetric(server)) === '1')
  assert.deepEqual((await ready(server)).body, { status: 'ready' })
})

test('row 1: a lasting fault is reported again every minute, and a user in the URL is not shown', () => {
  let now = 0
  const reports: (string | undefined)[] = []
  const link = createNatsLink(
    ['nats://user:secret@nats-1:4222', 'tls://nats-2:4222'],
    (fault) => reports.push(fault),
    () => now,
  )
  for (let attempt = 1; attempt <= 130; attempt++, now += 1_000) link.failed('connection refused')
  const at = (attempt: number) =>
    `cannot reach NATS nats://nats-1:4222, tls://nats-2:4222: connection refused (attempt ${attempt})`
  assert.deepEqual(reports, [at(1), at(61), at(121)])
  link.failed('authorization violation')
  assert.match(reports.at(-1) ?? '', /authorization violation \(attempt 131\)$/)
  link.connected()
  assert.deepEqual([reports.at(-1), link.fault(), link.isConnected()], [undefined, undefined, true])
})
