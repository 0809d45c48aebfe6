import assert from 'node:assert/strict'
import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { request } from 'node:https'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import type { TLSSocket } from 'node:tls'
import { freePorts } from '../../dev/ports.ts'
import { run } from '../../src/db/pool.ts'
import { sql } from '../../src/db/sql.ts'
import { type Id, toUuid } from '../../src/kernel/ids.ts'
import type { Client } from '../harness/client.ts'
import type { Account, Scope } from '../harness/control_plane.ts'
import { type EdgeProcess, type Installation, startInstallation } from '../harness/edge.ts'
import { freshHost, make } from '../harness/fixtures.ts'
import { type ChallengeServer, type Pebble, startChallengeServer, startPebble } from '../harness/pebble.ts'
import { poll } from '../harness/poll.ts'

export type AcmeInstallation = Installation & {
  pebble: Pebble
  challenges: ChallengeServer
  edge: EdgeProcess
  hook: string
}

/** Everything that is real: PostgreSQL, NATS, HAProxy with a port 80, an authority that refuses some nonces, and DNS. */
export async function startAcmeInstallation(
  scope: Scope,
  env: Record<string, string> = {},
  authority: { badNonces?: number; validitySeconds?: number } = {},
): Promise<AcmeInstallation> {
  const [httpPort = 0] = await freePorts(1)
  const challenges = await startChallengeServer(scope)
  const pebble = await startPebble(scope, { dnsServer: challenges.dns, httpPort, ...authority })
  const hook = await writeHook(scope, challenges)
  const installation = await startInstallation(scope, {
    GATEHOUSE_ACME_DIRECTORY: pebble.directoryUrl,
    GATEHOUSE_ACME_CA_FILE: pebble.caFile,
    GATEHOUSE_ACME_AGREE_TERMS: 'on',
    GATEHOUSE_ACME_EMAIL: 'ops@example.com',
    GATEHOUSE_ACME_DNS_HOOK: hook,
    GATEHOUSE_DNS_SERVERS: challenges.dns,
    GATEHOUSE_DOMAIN_OWNERSHIP: 'required',
    GATEHOUSE_DOMAIN_CHECKS_PER_MINUTE: '1000',
    GATEHOUSE_ACME_ORDERS_PER_HOUR: '1000',
    ...env,
  })
  const edge = await installation.startEdge({ env: { GATEHOUSE_EDGE_HTTP_LISTEN: `127.0.0.1:${httpPort}` } })
  return { ...installation, pebble, challenges, edge, hook }
}

/** What an operator would write: it sets the record in the DNS of the test. Beside it are its environment and its calls. */
export async function writeHook(scope: Scope, { url }: ChallengeServer): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-hook-'))
  scope.after(() => rm(folder, { recursive: true }))
  const hook = join(folder, 'hook')
  await writeFile(
    hook,
    `#!/bin/sh
set -eu
env > ${folder}/environment
echo "$@" >> ${folder}/calls
case "$1" in
  present) curl -fsS -d "{\\"host\\":\\"$2.\\",\\"value\\":\\"$3\\"}" ${url}/set-txt ;;
  cleanup) curl -fsS -d "{\\"host\\":\\"$2.\\"}" ${url}/clear-txt ;;
esac
`,
  )
  await chmod(hook, 0o700)
  return hook
}

type Domain = { id: Id<'rd'>; uri: string; domain: string }
export type Managed = Domain & { edgeUri: string }

/** A domain that is proven by its TXT record. */
export async function provenDomain(
  { challenges }: Pick<AcmeInstallation, 'challenges'>,
  as: Client,
  domain = freshHost(),
  more: object = {},
): Promise<Domain> {
  const { id, uri, verification } = await make(as, '/reserved_domains', { domain, ...more })
  await challenges.setTxt(verification.name, verification.value)
  const { body } = await as('POST', `${uri}/verify`, {})
  assert.equal(body.verification.status, 'verified', JSON.stringify(body))
  return { id, uri, domain }
}

/** An edge with a fixed response under some names of a domain. */
export async function serveNames(as: Client, names: readonly string[]): Promise<string> {
  const backend = await make(as, '/backends/http_response', { status_code: 200, body: 'hello' })
  const edge = await make(as, '/edges/https', { hostports: names.map((name) => `${name}:443`) })
  await make(as, `/edges/https/${edge.id}/routes?wait=applied`, {
    match_type: 'path_prefix',
    match: '/',
    backend: { backend_id: backend.id },
  })
  return edge.uri
}

export const managedPolicy = { certificate_management_policy: { authority: 'acme' } }

/** A proven domain with an edge, whose certificate is to be managed. */
export async function manage(
  installation: AcmeInstallation,
  as: Account,
  names: (domain: string) => string[] = (domain) => [domain],
  policy: object = managedPolicy,
): Promise<Managed> {
  const reserved = await provenDomain(installation, as)
  const edgeUri = await serveNames(as, names(reserved.domain))
  const { status, text: said } = await as('PATCH', reserved.uri, policy)
  assert.equal(status, 200, said)
  return { ...reserved, edgeUri }
}

// biome-ignore lint/suspicious/noExplicitAny: what the client returned, checked against openapi.json.
export const read = async (as: Client, uri: string): Promise<any> => (await as('GET', uri)).body
export const untilIssued = (as: Client, { uri }: { uri: string }, differsFrom?: string) =>
  poll(
    async () => {
      const domain = await read(as, uri)
      const certificate = domain.certificate && (await read(as, domain.certificate.uri))
      return { ...domain, issued: certificate }
    },
    ({ issued, certificate_management_status: { renews_at, provisioning_job } }) =>
      issued && issued.serial_number !== differsFrom && renews_at && provisioning_job === null,
  )

/** As if the time had come. */
export const makeDue = ({ db }: Pick<Installation, 'db'>, { id }: { id: Id<'rd'> }) =>
  run(
    db,
    sql`
    update acme_orders set next_attempt_at = now() - interval '1 second', held_back_until = null
    where domain_id = ${toUuid(id)}`,
  )

export type Visit = { status: number; body: string; serial: string }

/** A request that trusts the given root and nothing else, as a browser does with those of the world. */
export const visit = ({ edge }: Pick<AcmeInstallation, 'edge'>, name: string, root: string): Promise<Visit> =>
  new Promise((resolve, reject) => {
    const options = { host: '127.0.0.1', port: edge.httpsPort, servername: name, headers: { host: name }, ca: root }
    const outgoing = request({ ...options, agent: false }, (response) => {
      const serial = (response.socket as TLSSocket).getPeerCertificate().serialNumber.toLowerCase()
      text(response).then((body) => resolve({ status: response.statusCode ?? 0, body, serial }), reject)
    })
    outgoing.on('error', reject).end()
  })

/** One request after the other, none of which may fail, and the certificate that each saw. */
export function visitAllTheTime(installation: AcmeInstallation, name: string, root: string) {
  const serials: string[] = []
  let isOver = false
  const visiting = (async () => {
    while (!isOver) {
      const { status, serial } = await visit(installation, name, root)
      assert.equal(status, 200)
      serials.push(serial)
    }
  })()
  // `stop` reports what failed.
  visiting.catch(() => {})
  return {
    serials,
    async stop(): Promise<void> {
      isOver = true
      await visiting
    },
  }
}
