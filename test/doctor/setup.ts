import { generateKeyPairSync } from 'node:crypto'
import { chmod, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { asAppRole } from '../../dev/app_role.ts'
import { type LocalNats, startNats } from '../../dev/nats.ts'
import { freePort, freePorts } from '../../dev/ports.ts'
import { addSigningKey } from '../../src/publisher/signing_keys.ts'
import { newCertificate } from '../harness/certificates.ts'
import { gatehouse } from '../harness/command.ts'
import { newDatabase, type Scope, startControlPlane } from '../harness/control_plane.ts'
import { startDnsServer } from '../harness/dns_server.ts'

const { publicKey: key } = generateKeyPairSync('ed25519')
const publicKey = `ed25519:${key.export({ format: 'jwk' }).x}`

export type Environment = Record<string, string>
type Finding = { service?: string; check: string; status: 'ok' | 'warning' | 'failed'; message: string; hint: string }
export type Diagnosis = { code: number | null; findings: Finding[]; text: string }

/** The settings of a healthy installation that has not been started yet, on engines that run. */
export type SetUp = {
  folder: string
  databaseUrl: string
  controlPlane: Environment
  edge: Environment
  nats: LocalNats
  /** Starts a control plane, which creates them a moment later. */
  createBuckets: (scope: Scope) => Promise<void>
}

export async function healthySetUp(scope: Scope): Promise<SetUp> {
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-doctor-'))
  scope.after(() => rm(folder, { recursive: true, force: true }))
  const nats = await startTlsNats(scope, folder, '127.0.0.1')
  const dns = await startDnsServer(scope, () => undefined)
  const databaseUrl = await newDatabase()
  await query(databaseUrl, newBackup)
  const keyFile = await write(join(folder, 'secrets.key'), `${Buffer.alloc(32, 'a key').toString('base64')}\n`)
  const certificates = join(folder, 'certificates')
  await mkdir(certificates)
  const { certificate_pem, private_key_pem } = newCertificate(['*.example'], { days: 90 })
  await write(join(certificates, 'default.pem'), certificate_pem + private_key_pem)
  const ports = await freePorts(5)
  return {
    folder,
    databaseUrl,
    nats,
    createBuckets: (scope) => createBuckets(scope, nats),
    controlPlane: {
      ...nats.controlPlane,
      GATEHOUSE_DATABASE_URL: asAppRole(databaseUrl),
      GATEHOUSE_SECRETS_KEY_FILE: keyFile,
      GATEHOUSE_LISTEN: `127.0.0.1:${await freePort()}`,
      GATEHOUSE_DNS_SERVERS: dns.address,
    },
    edge: {
      ...nats.edge,
      GATEHOUSE_EDGE_NODE: 'edge-1',
      GATEHOUSE_EDGE_TRUSTED_KEYS: publicKey,
      GATEHOUSE_EDGE_FOLDER: join(folder, 'edge'),
      GATEHOUSE_EDGE_CERTIFICATES: certificates,
      GATEHOUSE_EDGE_TCP_ADDRESSES: '127.0.0.1',
      GATEHOUSE_TCP_PORTS: `${ports[0]}-${ports.at(-1)}`,
      GATEHOUSE_EDGE_HTTPS_LISTEN: `127.0.0.1:${await freePort()}`,
      GATEHOUSE_EDGE_STATUS_LISTEN: `127.0.0.1:${await freePort()}`,
      GATEHOUSE_EDGE_DNS_SERVERS: dns.address,
      GATEHOUSE_EDGE_CONTROL_PLANE_HOSTS: '127.0.0.1',
      // The limit of descriptors differs from machine to machine.
      GATEHOUSE_EDGE_MAX_CONNECTIONS: '100',
    },
  }
}

/** As if 'gatehouse backup' had just made one. */
export const newBackup = "insert into backups (snapshot_at, file, bytes, sha256) values (now(), '/backup', 1, '')"

async function createBuckets(scope: Scope, nats: LocalNats): Promise<void> {
  const { db } = await startControlPlane(scope, { env: nats.controlPlane })
  await addSigningKey(db, undefined)
}

/** NATS with TLS, and a certificate for this name from an authority of its own. */
export async function startTlsNats(scope: Scope, folder: string, name: string): Promise<LocalNats> {
  const authority = newCertificate(['authority'], { isAuthority: true, days: 90 })
  const own = newCertificate([name], { issuer: authority, days: 90 })
  const at = (file: string) => join(folder, `${name}-${file}`)
  const tls = {
    certFile: await write(at('nats.pem'), own.certificate_pem),
    keyFile: await write(at('nats.key'), own.private_key_pem),
  }
  const caFile = await write(at('ca.pem'), authority.certificate_pem)
  const nats = await startNats({ tls })
  scope.after(() => nats.stop())
  const secured = { GATEHOUSE_NATS_URL: nats.url.replace('nats://', 'tls://'), GATEHOUSE_NATS_CA_FILE: caFile }
  return { ...nats, controlPlane: { ...nats.controlPlane, ...secured }, edge: { ...nats.edge, ...secured } }
}

export async function write(file: string, text: string, mode = 0o600): Promise<string> {
  await writeFile(file, text)
  await chmod(file, mode)
  return file
}

export async function diagnose(env: Environment, ...flags: string[]): Promise<Diagnosis> {
  const { code, stdout, stderr } = await gatehouse(['doctor', '--output', 'json', ...flags], env)
  if (stderr) throw new Error(stderr)
  return { code, findings: JSON.parse(stdout).checks, text: stdout }
}

/** A port where something listens that is none of ours: it takes connections and never says a word. */
export async function silentPort(scope: Scope): Promise<number> {
  const server: Server = createServer((socket) => socket.on('error', () => {}))
  const port = await freePort()
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve))
  server.unref()
  scope.after(async () => void server.close())
  return port
}

export async function query(url: string, ...statements: string[]): Promise<void> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    for (const statement of statements) await client.query(statement)
  } finally {
    await client.end()
  }
}
