// `npm run drill -- emergencies <nodes>`: by the commands of the docs. With the control plane, PostgreSQL and NATS dead, a range is
// refused on every node. With the provider that everyone signs in with dead, and the nodes as well, an admin signs in.
import assert from 'node:assert/strict'
import { mkdtemp, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { freePorts } from '../../dev/ports.ts'
import { startPostgres } from '../../dev/postgres.ts'
import { dial, newGuardedEdge, startTcpUpstream } from '../agent/live_harness.ts'
import { startJoining } from '../fleet/joining.ts'
import { createClient } from '../harness/client.ts'
import { gatehouse } from '../harness/command.ts'
import { type Scope, startControlPlane, stop } from '../harness/control_plane.ts'
import { drill } from '../harness/drill.ts'
import { createMigratedDatabase } from '../harness/environment.ts'
import { signIn } from '../harness/session.ts'

const nodeCount = Number(process.argv[2] ?? 3)
const attacker = '127.0.0.66'
/** In seconds. */
const [rangeGoal, signInGoal] = [300, 120]

await drill(async (scope) => {
  const [session, range] = [await signInWithoutProvider(scope), await refuseRange(scope)]
  return range <= rangeGoal && session <= signInGoal
})

async function refuseRange(scope: Scope): Promise<number> {
  // A separate server: the shared one must survive the run, and this one is killed.
  const postgres = await startPostgres({})
  scope.after(() => postgres.stop())
  const databaseUrl = await createMigratedDatabase(postgres, 'drill')
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-emergency-'))
  const [key, order] = [join(folder, 'emergency.key'), join(folder, 'order.json')]
  const made = await gatehouse(['emergency', 'init', '--key', key])
  const env = { GATEHOUSE_EMERGENCY_KEYS: made.stdout.trim() }
  const installation = await startJoining(scope, undefined, { env, databaseUrl })
  await installation.untilReady()
  const addresses = Array.from({ length: nodeCount }, (_, index) => `127.0.1.${index + 1}`)
  const nodes = []
  for (const [index, address] of addresses.entries()) {
    const machine = await installation.joinMachine(await installation.invite(`edge-${index + 1}`))
    assert.equal(machine.code, 0, machine.stderr)
    nodes.push(await installation.startJoined(machine, { GATEHOUSE_EDGE_TCP_ADDRESSES: address }))
  }
  const upstream = await startTcpUpstream(scope)
  const { port } = await newGuardedEdge(
    installation.admin,
    installation.tcpPorts.first,
    upstream.port,
    'allow 127.0.0.0/8',
  )
  const answers = () => Promise.all(addresses.map((address) => dial(port, attacker, address)))
  assert.deepEqual(
    await answers(),
    addresses.map(() => 'hello'),
  )

  for (const { child } of installation.processes) await stop(child, 'SIGKILL')
  await postgres.kill()
  await installation.nats.stop('SIGKILL')
  const began = performance.now()
  const seconds = () => (performance.now() - began) / 1_000
  const signed = await gatehouse([
    'emergency',
    'refuse',
    '127.0.0.64/29',
    '--key',
    key,
    '--for',
    '2h',
    '--reason',
    'a flood',
  ])
  await writeFile(order, signed.stdout)
  for (const { statusUrl } of nodes) {
    const listen = { GATEHOUSE_EDGE_STATUS_LISTEN: new URL(statusUrl).host }
    const { code, stderr } = await gatehouse(['edge', 'apply-emergency', order], listen)
    assert.equal(code, 0, stderr)
  }
  const took = seconds()
  assert.deepEqual(
    await answers(),
    addresses.map(() => undefined),
  )
  console.log(
    `control plane, PostgreSQL and NATS dead: a range is signed and refused on ${nodeCount} nodes after ${took.toFixed(1)} s`,
  )
  await postgres.restart()
  await installation.nats.restart()
  return took
}

async function signInWithoutProvider(scope: Scope): Promise<number> {
  const [port = 0] = await freePorts(1)
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-oidc-'))
  const file = join(folder, 'oidc.json')
  await writeFile(join(folder, 'client.secret'), 'a secret\n')
  const provider = {
    name: 'acme',
    title: 'Acme',
    account: 'acme',
    issuer: 'http://127.0.0.1:9',
    client_id: 'gatehouse',
  }
  await writeFile(
    file,
    JSON.stringify({
      providers: [
        { ...provider, client_secret_file: 'client.secret', default_role: 'member', allowed_groups: ['staff'] },
      ],
    }),
  )
  const env = { GATEHOUSE_OIDC_FILE: file, GATEHOUSE_LISTEN: `127.0.0.1:${port}`, GATEHOUSE_TOKEN_SIGN_IN: 'off' }
  const plane = await startControlPlane(scope, { env })
  const database = { GATEHOUSE_DATABASE_URL: plane.databaseUrl }
  assert.equal((await gatehouse(['bootstrap', '--account', 'acme'], database)).code, 0)
  const began = performance.now()
  const recovered = await gatehouse(['recover', '--account', 'acme'], database)
  const token = JSON.parse(recovered.stdout).token
  const origin = `http://127.0.0.1:${port}`
  const client = Object.assign(createClient([origin], token), { accountId: '', adminId: '' })
  await assert.rejects(signIn(client), /token/i)
  for (const { child } of plane.processes) await stop(child)
  await plane.startProcess({ GATEHOUSE_TOKEN_SIGN_IN: 'on' })
  const browser = await signIn(client)
  const took = (performance.now() - began) / 1_000
  const { body } = await browser('GET', '/audit_events')
  const operations = body.audit_events.map(({ operation }: { operation: string }) => operation)
  console.log(
    `provider and nodes dead: an admin is signed in after ${took.toFixed(1)} s; audited: ${operations.slice(0, 3).join(', ')}`,
  )
  return took
}
