// `npm run drill -- backup <keys> <edges> <certificates>`: an installation is backed up, changed, thrown away with its database
// and NATS, and restored on an empty PostgreSQL. Every resource that the API shows, and every record of the edge node, must be
// what it was at the backup.
import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { rm } from 'node:fs/promises'
import { connect } from 'node:tls'
import { isDeepStrictEqual } from 'node:util'
import pg from 'pg'
import { asAppRole } from '../../dev/app_role.ts'
import { type LocalPostgres, startPostgres } from '../../dev/postgres.ts'
import { openRecordLog } from '../../src/agent/disk/record_log.ts'
import { kindOf } from '../../src/distribution/records.ts'
import { newUuid, toUuid } from '../../src/kernel/ids.ts'
import { dial, newGuardedEdge, startTcpUpstream, statusOf } from '../agent/live_harness.ts'
import { backupFolder } from '../backup/harness.ts'
import type { Client } from '../harness/client.ts'
import { type Scope, stop } from '../harness/control_plane.ts'
import { drill } from '../harness/drill.ts'
import { type EdgeProcess, type Installation, startInstallation } from '../harness/edge.ts'
import { createMigratedDatabase } from '../harness/environment.ts'
import { make, newTcpEdge } from '../harness/fixtures.ts'
import { insertEdges } from '../harness/insert_edges.ts'
import { poll } from '../harness/poll.ts'
import { quickCertificate } from '../harness/quick_certificates.ts'

const [keys = 100_000, edges = 10_000, certificates = 200] = process.argv.slice(2).map(Number)
const patient = { withinSeconds: 1_800 }
/** Time-outs of a request, and quotas, are not what this is about. */
const settings = {
  GATEHOUSE_API_KEYS_PER_ACCOUNT: '10000000',
  GATEHOUSE_HTTPS_EDGES_PER_ACCOUNT: '10000000',
  GATEHOUSE_CERTIFICATES_PER_ACCOUNT: '10000000',
}

async function timed<Result>(what: string, work: () => Promise<Result>): Promise<Result> {
  const began = Date.now()
  const result = await work()
  console.log(`${what}: ${((Date.now() - began) / 1_000).toFixed(1)} s`)
  return result
}

/** A PostgreSQL of its own: it goes away during the drill. */
async function ownPostgres(scope: Scope): Promise<LocalPostgres & { throwAway: () => Promise<void> }> {
  const postgres = await startPostgres({})
  let isGone = false
  scope.after(async () => {
    if (!isGone) await postgres.stop()
  })
  return Object.assign(postgres, {
    async throwAway() {
      isGone = true
      await postgres.kill()
      await rm(postgres.dataDir, { recursive: true })
    },
  })
}

/** Resolves to the names that have a certificate of their own, with its fingerprint. */
async function fill(
  installation: Installation,
  backend: { id: string },
  policyId: string,
): Promise<Map<string, string>> {
  const { admin, db } = installation
  const account = toUuid(admin.accountId as `ac_${string}`)
  for (let start = 0; start < keys; start += 5_000)
    await db.query({
      text: `insert into api_keys (account_id, id, owner_id, owner_kind, token_hash)
             select $1, id, $2, 'user', sha256(id::text::bytea) from unnest($3::uuid[]) id`,
      values: [
        account,
        toUuid(admin.adminId as `usr_${string}`),
        Array.from({ length: Math.min(5_000, keys - start) }, () => newUuid()),
      ],
    })
  const { edges: made } = await insertEdges(installation, edges, { backendId: backend.id, policyId })
  const served = new Map<string, string>()
  for (const id of made.slice(0, certificates)) {
    const certificate = quickCertificate([`h${id}.example`])
    const { id: certificateId } = await make(admin, '/tls_certificates', certificate)
    await db.query({
      text: `insert into reserved_domains (account_id, id, domain, challenge, status, verified_at, certificate_id)
             values ($1, $2::uuid, $3, 'gatehouse-verification=' || $2::text, 'assigned', now(), $4)`,
      values: [account, newUuid(), `h${id}.example`, toUuid(certificateId)],
    })
    served.set(`h${id}.example`, new X509Certificate(certificate.certificate_pem).fingerprint256)
  }
  return served
}

/** How many of these names the node serves with another certificate. */
async function wrongCertificates({ httpsPort }: EdgeProcess, served: ReadonlyMap<string, string>): Promise<number> {
  let wrong = 0
  for (const [servername, fingerprint] of served) {
    const socket = connect({ host: '127.0.0.1', port: httpsPort, servername, rejectUnauthorized: false })
    await once(socket, 'secureConnect')
    if (socket.getPeerCertificate().fingerprint256 !== fingerprint) wrong++
    socket.destroy()
  }
  return wrong
}

const lists = [
  'api_keys',
  'ip_policies',
  'ip_policy_rules',
  'ip_restrictions',
  'edges/https',
  'edges/tcp',
  'backends/static',
]
/** Every resource, by the address that it has. */
async function resources(as: Client, process: number): Promise<Map<string, unknown>> {
  const found = new Map<string, unknown>()
  for (const list of [...lists, 'tls_certificates', 'reserved_domains', 'users', 'bot_users']) {
    let path: string | null = `/${list}?limit=100`
    while (path) {
      const { status, body, text } = await as('GET', path, undefined, { process })
      assert.equal(status, 200, text)
      const [rows] = Object.values(body).filter(Array.isArray) as { uri: string; last_used_at?: string }[][]
      // Uses of keys come in while they are being listed.
      for (const { last_used_at: _, ...row } of rows ?? assert.fail(list)) found.set(row.uri, row)
      path = body.next_page_uri && new URL(body.next_page_uri).pathname + new URL(body.next_page_uri).search
    }
  }
  return found
}

/** Without generations, which a restore raises, and without sealed keys, which are encrypted again every time. */
async function recordsOf({ folder }: EdgeProcess): Promise<Map<string, unknown>> {
  const log = await openRecordLog(folder)
  await log.close()
  const isSealed = (key: Parameters<typeof kindOf>[0]) =>
    !['tcp', 'https', 'route', 'backend', 'policy', 'restrictions'].includes(kindOf(key))
  return new Map(
    [...log.records]
      .filter(([, { value }]) => value !== null)
      .map(([key, { value }]) => [key, isSealed(key) ? 'sealed' : value]),
  )
}

function differing(what: string, before: Map<string, unknown>, now: Map<string, unknown>): number {
  const wrong = [...new Set([...before.keys(), ...now.keys()])].filter(
    (key) => !isDeepStrictEqual(before.get(key), now.get(key)),
  )
  console.log(`${what}: ${before.size} compared, ${wrong.length} differ`)
  for (const key of wrong.slice(0, 5))
    console.log(`  ${key}: ${JSON.stringify(before.get(key))} and now ${JSON.stringify(now.get(key))}`)
  return wrong.length
}

await drill(async (scope) => {
  const { at, identity, command } = await backupFolder(scope)
  const first = await ownPostgres(scope)
  const installation = await startInstallation(scope, settings, await createMigratedDatabase(first, 'gatehouse'))
  const { admin, nats, clientFor, processes } = installation
  const edge = await installation.startEdge()
  const upstream = await startTcpUpstream(scope)
  const guarded = await newGuardedEdge(admin, edge.tcpPorts.first, upstream.port, 'allow 127.0.0.2')
  const served = await timed(
    `filled with ${keys} keys, ${edges} edges with a route and ${certificates} certificates`,
    () => fill(installation, guarded.backend, `${guarded.policyId}`),
  )
  const call: Client = Object.assign(
    (...[method, path, body, options]: Parameters<Client>) =>
      clientFor(admin.token)(method, path, body, { ...options, process: processes.length - 1 }),
    { token: admin.token },
  )
  const endAll = async () => {
    for (const { child } of processes) await stop(child)
  }
  /** A change behind everything else that there is to send. */
  const untilSettled = async () => {
    const { headers } = await call('POST', '/ip_policies', {})
    const generation = Number(headers.get('service-generation'))
    await poll(
      () => statusOf(edge),
      ({ applied, records }) => applied >= generation && records >= 2 * edges,
      patient,
    )
  }
  // The rows were not written to the outbox: the next publisher finds what is missing.
  await endAll()
  await installation.startProcess()
  await timed('the node had everything', untilSettled)
  await poll(
    () => wrongCertificates(edge, served),
    (wrong) => wrong === 0,
    patient,
  )
  const [shown, records] = [await resources(call, processes.length - 1), await recordsOf(edge)]

  const file = at('drill.age')
  const made = await timed('gatehouse backup', () => command(['backup', file], first.urlOf('gatehouse')))
  assert.equal(made.code, 0, made.stderr)
  console.log(made.stdout.trim())
  const verified = await timed('gatehouse backup verify', () =>
    command(['backup', 'verify', file, '--identity', identity], first.urlOf('gatehouse')),
  )
  assert.equal(verified.code, 0, verified.stderr)

  // After the backup an edge comes and another goes. Both must be undone.
  const lost = await newTcpEdge(call, {
    hostports: [`127.0.0.1:${edge.tcpPorts.last}`],
    backend: { backend_id: guarded.backend.id },
  })
  const gone = await call('DELETE', `/edges/tcp/${guarded.edge.id}?wait=applied`)
  assert.equal(gone.headers.get('service-applied'), '1/1', gone.text)
  assert.equal(await dial(edge.tcpPorts.last, '127.0.0.2'), 'hello', lost.id)
  await endAll()
  await first.throwAway()
  await nats.stop('SIGKILL')
  assert.equal(await dial(edge.tcpPorts.last, '127.0.0.2'), 'hello', 'the node keeps serving')
  console.log('PostgreSQL with its data, NATS and the control plane are gone; the node keeps serving')

  const second = await ownPostgres(scope)
  const client = new pg.Client({ connectionString: second.url })
  await client.connect()
  await client.query('create database gatehouse')
  await client.end()
  const restored = await timed('gatehouse restore', () =>
    command(['restore', file, '--identity', identity], second.urlOf('gatehouse'), settings),
  )
  assert.equal(restored.code, 0, restored.stderr)
  await nats.restart({ empty: true })
  await timed('the node followed the restored database', async () => {
    await installation.startProcess({ GATEHOUSE_DATABASE_URL: asAppRole(second.urlOf('gatehouse')) })
    await poll(
      () => dial(guarded.port, '127.0.0.2'),
      (heard) => heard === 'hello',
      patient,
    )
    await poll(
      () => dial(edge.tcpPorts.last, '127.0.0.2'),
      (heard) => heard === undefined,
      patient,
    )
    await untilSettled()
  })
  assert.equal(await dial(guarded.port, '127.0.0.3'), undefined, 'the policy holds')
  const after = await resources(call, processes.length - 1)
  // What was created to notice that everything had arrived.
  for (const { uri } of (await call('GET', '/ip_policies?limit=100')).body.ip_policies)
    if (!shown.has(uri)) after.delete(uri)
  const wrong = await wrongCertificates(edge, served)
  console.log(`certificates: ${served.size} asked for, ${wrong} differ`)
  const kept = await recordsOf(edge)
  for (const key of kept.keys()) if (key.startsWith('policy.') && !records.has(key)) kept.delete(key)
  return wrong + differing('resources', shown, after) + differing("the node's records", records, kept) === 0
})
