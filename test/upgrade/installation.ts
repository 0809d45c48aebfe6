import assert from 'node:assert/strict'
import { chmod, copyFile, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { request } from 'node:https'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { appRole, asAppRole } from '../../dev/app_role.ts'
import { makeCertificate } from '../../dev/edge.ts'
import { startNats } from '../../dev/nats.ts'
import { freePort, freePorts } from '../../dev/ports.ts'
import { newDatabase, type Scope } from '../harness/control_plane.ts'
import { poll } from '../harness/poll.ts'
import { callApi } from './api_load.ts'
import { folderOf, type OlderVersion } from './older_version.ts'
import { type Running, versionIn } from './programs.ts'

const root = new URL('../..', import.meta.url).pathname

/** Refused by the policy of every site, before, during and after the upgrade. */
export const stranger = '127.0.0.9'

export const originOf = ({ log }: Running): string => {
  const listening = log.find(({ msg }) => msg === 'listening') as { address: { port: number } }
  return `http://127.0.0.1:${listening.address.port}`
}

/** An installation of an older version: control plane, NATS with its permissions, and one edge node. */
export async function startOlder(scope: Scope, version: OlderVersion) {
  const folder = await folderOf(version)
  const older = versionIn('older', folder)
  const home = await mkdtemp(join(tmpdir(), 'gatehouse-upgrade-'))
  scope.after(() => rm(home, { recursive: true, force: true }))
  await chmod(home, 0o755)
  const { nats, permissions } = await startNatsOfOlder(scope, folder, home)
  const [first, , last] = await freePorts(3)
  const owner = {
    ...nats.controlPlane,
    GATEHOUSE_DATABASE_URL: await newDatabase('template0'),
    GATEHOUSE_DATABASE_APP_ROLE: appRole,
    GATEHOUSE_LISTEN: '127.0.0.1:0',
    GATEHOUSE_TCP_PORTS: `${first}-${last}`,
  }
  const plane = { ...owner, GATEHOUSE_DATABASE_URL: asAppRole(owner.GATEHOUSE_DATABASE_URL) }
  await older.run(['migrate'], owner)
  const { token, signing_key } = JSON.parse(await older.run(['bootstrap'], owner))
  const oldPlane = await older.start(scope, 'serve', version.hasAppRole ? plane : owner)
  const node = await nodeSettings(home, {
    ...nats.edge,
    GATEHOUSE_TCP_PORTS: owner.GATEHOUSE_TCP_PORTS,
    GATEHOUSE_EDGE_TRUSTED_KEYS: signing_key,
  })
  const eventPort = { GATEHOUSE_EDGE_EVENT_PORT: String(await freePort()) }
  const oldAgent = await older.start(scope, 'edge', { ...node.env, ...eventPort, ...version.edge })
  return { owner, plane, token, oldPlane, node, oldAgent, permissions }
}

async function startNatsOfOlder(scope: Scope, folder: string, home: string) {
  const authorization = join(home, 'authorization.conf')
  const file = 'deploy/nats/authorization.conf'
  await copyFile(join(folder, file), authorization)
  const nats = await startNats({ authorization })
  scope.after(() => nats.stop())
  const read = (path: string) => readFile(path, 'utf8')
  const [old, current] = [await read(join(folder, file)), await read(join(root, file))]
  const sharedAccount = await read(join(root, 'test/upgrade/authorization-0.2.conf'))
  const consumers = old.match(/^ *"\$JS\.(API\.CONSUMER|FC)\..*$/gm) ?? []
  const permit = async (text: string) => {
    await writeFile(authorization, text)
    process.kill(nats.pid, 'SIGHUP')
  }
  const permissions = {
    /** All in one account still, with the consumers that agents of the older version make. */
    ofBoth: () => permit(sharedAccount.replace(/^ *"\$JS\.API\.INFO"$/m, (line) => [line, ...consumers].join('\n'))),
    /** Nodes in accounts of their own. A reload would not turn JetStream on in the new account of the control plane. */
    async ofNewer() {
      await writeFile(authorization, current)
      await nats.restart()
    },
  }
  return { nats, permissions }
}

async function nodeSettings(home: string, env: Record<string, string>) {
  const certificates = join(home, 'certificates')
  await mkdir(certificates)
  makeCertificate(join(certificates, 'default.pem'), '*.example')
  const httpsPort = await freePort()
  return {
    httpsPort,
    env: {
      ...env,
      GATEHOUSE_EDGE_NODE: 'edge-1',
      GATEHOUSE_EDGE_FOLDER: join(home, 'edge'),
      GATEHOUSE_EDGE_CERTIFICATES: certificates,
      GATEHOUSE_EDGE_TCP_ADDRESSES: '127.0.0.1',
      GATEHOUSE_EDGE_HTTPS_LISTEN: `127.0.0.1:${httpsPort}`,
      GATEHOUSE_EDGE_STATUS_LISTEN: `127.0.0.1:${await freePort()}`,
    },
  }
}

type Node = { httpsPort: number }

/** Sites that everyone on this machine but the stranger may reach, made through the API of whichever version answers. */
export async function createSites(
  scope: Scope,
  { httpsPort }: Node,
  rules: number,
  token: string,
  origin: () => string,
) {
  const upstream = createServer({ keepAliveTimeout: 600_000 }, (_, response) => response.end('ok'))
  await new Promise<void>((resolve) => upstream.listen(0, '127.0.0.1', resolve))
  scope.after(async () => {
    upstream.close()
    upstream.closeAllConnections()
  })
  const call = async (method: string, path: string, body?: object) => {
    const { status, text } = await callApi(origin(), token, method, path, body)
    assert.ok(status < 300, `${method} ${path}: ${status} ${text}`)
    return JSON.parse(text)
  }
  const { port } = upstream.address() as AddressInfo
  const backend = await call('POST', '/backends/static', { address: `127.0.0.1:${port}` })
  const denied = Array.from({ length: rules }, (_, index) => `10.${index >> 8}.${index & 255}.0/24`)
  return {
    call,
    async add(host: string): Promise<{ id: string }> {
      const policy = await call('POST', '/ip_policies', { description: host })
      await call('PUT', `/ip_policies/${policy.id}/rules`, {
        rules: [
          ...[...denied, `${stranger}/32`].map((cidr) => ({ cidr, action: 'deny' })),
          { cidr: '127.0.0.0/8', action: 'allow' },
        ],
      })
      const edge = await call('POST', '/edges/https', { hostports: [`${host}:443`] })
      await call('POST', `/edges/https/${edge.id}/routes`, {
        match_type: 'path_prefix',
        match: '/',
        backend: { backend_id: backend.id },
        ip_restriction: { ip_policy_ids: [policy.id] },
      })
      return policy
    },
    async check(host: string): Promise<void> {
      await poll(async () => (await statusOf(httpsPort, host)) === 200)
      assert.equal(await statusOf(httpsPort, host, stranger), 403, `${host} lets ${stranger} in`)
    },
  }
}

/** 0 when there was no answer. */
export const statusOf = (port: number, host: string, localAddress = '127.0.0.1', path = '/'): Promise<number> =>
  new Promise((resolve) => {
    const options = {
      host: '127.0.0.1',
      port,
      servername: host,
      path,
      headers: { host },
      localAddress,
      agent: false as const,
    }
    request({ ...options, rejectUnauthorized: false }, (response) => {
      response.resume()
      resolve(response.statusCode ?? 0)
    })
      .on('error', () => resolve(0))
      .end()
  })
