// `gatehouse status`: every part of an installation that runs, and each as it is when another does not answer.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { after, test } from 'node:test'
import { makeCertificate } from '../../dev/edge.ts'
import { freePort } from '../../dev/ports.ts'
import { get } from '../agent/http_harness.ts'
import { gatehouse } from '../harness/command.ts'
import { stop } from '../harness/control_plane.ts'
import { startInstallation } from '../harness/edge.ts'
import { poll } from '../harness/poll.ts'
import { newUser } from '../harness/principals.ts'
import { program } from '../harness/program.ts'
import { cliFor } from './harness.ts'

type Part = { part: string; name?: string; status: string; message: string }

const installation = await startInstallation({ after })
const { admin } = installation
const edge = await installation.startEdge()
const cli = cliFor(installation, admin)
const agent = { GATEHOUSE_EDGE_STATUS_LISTEN: new URL(edge.statusUrl).host }

async function look(env: Record<string, string> = {}, run: typeof cli = cli) {
  const { code, stdout, stderr } = await run(['status', '-o', 'json'], { env: { ...agent, ...env } })
  assert.equal(stderr, '')
  const { status, parts } = JSON.parse(stdout) as { status: string; parts: Part[] }
  return {
    code,
    status,
    parts,
    of: (part: string, name?: string) => parts.find((p) => p.part === part && p.name === name),
  }
}

test('all parts are shown, and all are fine', async () => {
  const { code, status, parts } = await poll(
    () => look(),
    // Nothing has been backed up here.
    (seen) =>
      seen.of('backup') !== undefined && seen.parts.every(({ part, status }) => status === 'up' || part === 'backup'),
  )
  assert.deepEqual([code, status], [0, 'ok'])
  assert.deepEqual(
    parts.map(({ part, name, status: each }) => [part, name, each]),
    [
      ['API', undefined, 'up'],
      ['publisher', undefined, 'up'],
      ['edge nodes', undefined, 'up'],
      ['edge nodes', 'edge-1', 'up'],
      ['certificates', undefined, 'up'],
      ['backup', undefined, 'warning'],
      ['this machine', undefined, 'up'],
    ],
  )
  const text = await cli.ok(['status'], { env: agent })
  assert.match(text, /^API +up +http\S+ is ready$/m)
  assert.match(
    text,
    /^ {2}edge-1 +up +It reports and has applied every change that is due\. \(generation \d+, version \S+\)$/m,
  )
  assert.match(text, /^this machine +up +edge-1 is ready, generation \d+$/m)
})

test('a served name without a certificate is shown, until the folder of the node has one', async () => {
  const api = installation.clientFor(admin.token)
  const metric = async (name: string, url: string) =>
    new RegExp(`^${name} (\\d+)$`, 'm').exec(await (await fetch(`${url}/metrics`)).text())?.[1]
  const certificates = async () => (await api('GET', '/edge_nodes')).body.edge_nodes[0].certificates
  const before = await certificates()
  assert.deepEqual([before.missing_names, before.names > 0, before.first_expires_at !== null], [0, true, true])

  await api('POST', '/edges/https?wait=applied', { hostports: ['web.elsewhere.test:443', 'web.example:443'] })
  const missing = await poll(certificates, ({ missing_names }) => missing_names > 0)
  assert.equal(missing.missing_names, 1, 'a wildcard of the folder covers the other')
  const { code, of } = await look()
  assert.equal(code, 9)
  assert.equal(of('edge nodes', 'edge-1')?.status, 'degraded')
  assert.match(of('edge nodes', 'edge-1')?.message ?? '', /^It has no certificate for 1 name of HTTPS edges\. /)
  assert.equal(await metric('gatehouse_edge_missing_certificates', edge.statusUrl), '1')
  assert.equal(await metric('gatehouse_edge_nodes_missing_certificates', installation.processes[0]?.origin ?? ''), '1')
  const { stdout } = await gatehouse(['doctor', '--output', 'json'], {
    ...agent,
    GATEHOUSE_EDGE_NODE: 'edge-1',
    GATEHOUSE_EDGE_TRUSTED_KEYS: installation.publicKey,
    GATEHOUSE_NATS_URL: installation.nats.url,
  })
  assert.match(stdout, /1 name of HTTPS edges without a certificate on this node: web\.elsewhere\.test"/)

  makeCertificate(join(edge.folder, 'certificates', 'elsewhere.pem'), 'web.elsewhere.test')
  const found = await poll(certificates, ({ missing_names }) => missing_names === 0)
  assert.ok(found.names > before.names)
})

test('a certificate that is in the folder before its edge is served as soon as the edge is applied', async () => {
  for (const name of ['early-1.test', 'early-2.test', 'early-3.test']) {
    makeCertificate(join(edge.folder, 'certificates', `${name}.pem`), name)
    await installation.clientFor(admin.token)('POST', '/edges/https?wait=applied', { hostports: [`${name}:443`] })
    assert.equal((await get(edge, { host: name })).status, 404, `${name} has a certificate and no route`)
  }
})

test('on a machine with an edge node only, where no server is configured, its agent is shown', async () => {
  const env = { XDG_CONFIG_HOME: cli.env.XDG_CONFIG_HOME ?? '', ...agent }
  const { code, stdout } = await gatehouse(['status'], env)
  assert.match(stdout, /^this machine +up +edge-1 is ready, generation \d+\n$/)
  assert.equal(code, 0)
})

test('an agent that should be there and does not answer is wrong', async () => {
  const { code, of } = await look({ GATEHOUSE_EDGE_STATUS_LISTEN: `127.0.0.1:${await freePort()}` })
  assert.equal(code, 9)
  assert.equal(of('this machine')?.status, 'down')
  assert.match(of('this machine')?.message ?? '', /^no edge node responds at http:.*ECONNREFUSED/)
  assert.equal(of('API')?.status, 'up')
})

test('what cannot be asked for is unknown, never fine', async () => {
  const url = `http://127.0.0.1:${await freePort()}`
  const away = await look({ GATEHOUSE_URL: url })
  assert.equal(away.code, 9)
  assert.equal(away.of('API')?.status, 'down')
  for (const part of ['publisher', 'edge nodes', 'certificates']) assert.equal(away.of(part)?.status, 'unknown', part)
  assert.equal(away.of('this machine')?.status, 'up')

  const member = await look({}, cliFor(installation, await newUser(installation, admin)))
  assert.equal(member.code, 9)
  assert.deepEqual(
    ['API', 'edge nodes', 'certificates'].map((part) => member.of(part)?.status),
    ['up', 'unknown', 'unknown'],
  )
})

test('the server of another program is not taken for ours', async () => {
  const { code, of } = await look({ GATEHOUSE_URL: edge.statusUrl })
  assert.equal(code, 9)
  assert.equal(of('publisher')?.status, 'unknown')
})

test('without a server and without a node there is nothing to show, and the command says so', async () => {
  const { code, stderr } = await gatehouse(['status'], { XDG_CONFIG_HOME: cli.env.XDG_CONFIG_HOME ?? '' })
  assert.equal(code, 2)
  assert.match(stderr, /no server configured/)
})

test('--watch shows it again until it is interrupted', async () => {
  const child = spawn(process.execPath, [program, 'status', '--watch', '-o', 'json'], {
    env: { ...process.env, ...cli.env, ...agent },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let seen = 0
  for await (const line of createInterface({ input: child.stdout })) {
    assert.equal(JSON.parse(line).status, 'wrong', 'edges without routes')
    if (++seen === 2) child.kill('SIGINT')
  }
  const [code] = child.exitCode === null ? await once(child, 'exit') : [child.exitCode]
  assert.deepEqual([seen, code], [2, 9])
})

test('a node that is gone is down', async () => {
  await stop(edge.child)
  const { code, of } = await poll(
    () => look(),
    (seen) => seen.of('edge nodes', 'edge-1')?.status === 'down',
  )
  assert.equal(code, 9)
  assert.match(of('edge nodes', 'edge-1')?.message ?? '', /^It has stopped reporting\. /)
  assert.equal(of('edge nodes')?.message, '0 of 1 live')
  assert.equal(of('certificates')?.status, 'unknown')
})
