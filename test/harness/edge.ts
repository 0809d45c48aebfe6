import { type ChildProcess, spawn } from 'node:child_process'
import { createWriteStream } from 'node:fs'
import { chmod, mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { makeCertificate } from '../../dev/edge.ts'
import { type LocalNats, startNats } from '../../dev/nats.ts'
import { freePort, freePorts } from '../../dev/ports.ts'
import { endWithUs, patientEnd } from '../../dev/run_on_exit.ts'
import { addSigningKey } from '../../src/publisher/signing_keys.ts'
import type { Client } from './client.ts'
import {
  type Account,
  type ControlPlane,
  type Scope,
  type ServeProcess,
  secretsBox,
  startControlPlane,
  stop,
} from './control_plane.ts'
import { loadScaledTimeout } from './load_scaled_timeout.ts'
import { poll } from './poll.ts'
import { program } from './program.ts'
import { testRun } from './test_run.ts'

export type EdgeProcess = {
  child: ChildProcess
  folder: string
  httpsPort: number
  tcpPorts: { first: number; last: number }
  statusUrl: string
  log: Record<string, unknown>[]
}
export type Installation = ControlPlane & {
  nats: LocalNats
  publicKey: string
  admin: Account
  tcpPorts: { first: number; last: number }
  startEdge: (options?: EdgeOptions) => Promise<EdgeProcess>
}
type EdgeOptions = {
  env?: Record<string, string>
  folder?: string
  like?: EdgeProcess
  /** For nodes that start while the control plane or NATS is down. */
  cutOff?: boolean
}

/** A control plane, NATS with the permissions of deploy/, and as many edge nodes with HAProxy as a test starts. */
export async function startInstallation(
  scope: Scope,
  env: Record<string, string> = {},
  databaseUrl?: string,
  starting: Promise<LocalNats> = startNats(),
): Promise<Installation> {
  const nats = await starting
  const edges: { child: ChildProcess; home: string }[] = []
  // All of them before any folder goes: several may have the same one, in turn, and an agent that runs writes into it.
  scope.after(async () => {
    await Promise.all(edges.map(({ child }) => stop(child)))
    for (const home of new Set(edges.map((edge) => edge.home))) await rm(home, { recursive: true, force: true })
  })
  scope.after(() => nats.stop())
  const ports = await freePorts(20)
  const tcpPorts = { first: ports[0] ?? 0, last: ports.at(-1) ?? 0 }
  let publicKey = ''
  const plane = await startControlPlane(scope, {
    env: { ...nats.controlPlane, GATEHOUSE_TCP_PORTS: `${tcpPorts.first}-${tcpPorts.last}`, ...env },
    ...(databaseUrl && { databaseUrl }),
    prepare: async (db) => {
      publicKey = (await addSigningKey(db, secretsBox)).public_key
    },
  })
  const admin = await plane.newAccount()
  const startEdge = async ({ env: more = {}, like, folder, cutOff }: EdgeOptions = {}): Promise<EdgeProcess> => {
    const home = folder ?? like?.folder ?? (await mkdtemp(join(tmpdir(), 'gatehouse-edge-')))
    const certificates = join(home, 'certificates')
    if (!like) {
      await chmod(home, 0o755)
      await mkdir(certificates, { recursive: true })
      makeCertificate(join(certificates, 'default.pem'), '*.example')
    }
    const [httpsPort, statusPort] = [like?.httpsPort ?? (await freePort()), await freePort()]
    const startedAfter = Date.now()
    const edge = await edgeProcess({
      ...nats.edge,
      GATEHOUSE_EDGE_NODE: 'edge-1',
      GATEHOUSE_EDGE_TRUSTED_KEYS: publicKey,
      GATEHOUSE_EDGE_FOLDER: home,
      GATEHOUSE_EDGE_CERTIFICATES: certificates,
      GATEHOUSE_EDGE_TCP_ADDRESSES: '127.0.0.1,[::1]',
      GATEHOUSE_TCP_PORTS: `${tcpPorts.first}-${tcpPorts.last}`,
      GATEHOUSE_EDGE_HTTPS_LISTEN: `127.0.0.1:${httpsPort}`,
      GATEHOUSE_EDGE_STATUS_LISTEN: `127.0.0.1:${statusPort}`,
      // The upstreams of examples and tests are on this machine.
      GATEHOUSE_EDGE_UPSTREAM_ALLOW: '127.0.0.0/8,::1',
      GATEHOUSE_EDGE_DRAIN_DELAY_SECONDS: '0',
      GATEHOUSE_EDGE_DRAIN_DEADLINE_SECONDS: '0',
      ...more,
    })
    edges.push({ child: edge.child, home })
    if (!cutOff)
      await untilListed(
        plane.clientFor(admin.token),
        plane.processes,
        more.GATEHOUSE_EDGE_NODE ?? 'edge-1',
        startedAfter,
      )
    return { ...edge, folder: home, httpsPort, tcpPorts, statusUrl: `http://127.0.0.1:${statusPort}` }
  }
  return { ...plane, nats, publicKey, admin, tcpPorts, startEdge }
}

/** Until every process counts the node as live, `?wait=applied` would not wait for it. */
async function untilListed(
  admin: Client,
  processes: readonly ServeProcess[],
  name: string,
  startedAfter: number,
): Promise<void> {
  type Node = { name: string; live: boolean; started_at: string }
  const isUp = (node: Node) => node.name === name && node.live && Date.parse(node.started_at) >= startedAfter
  for (const [process, { child }] of processes.entries())
    if (child.exitCode === null && child.signalCode === null)
      await poll(
        async (): Promise<Node[]> => (await admin('GET', '/edge_nodes', undefined, { process })).body.edge_nodes,
        (nodes) => nodes.some(isUp),
      )
}

async function edgeProcess(env: Record<string, string>): Promise<Pick<EdgeProcess, 'child' | 'log'>> {
  const child = spawn(process.execPath, [program, 'edge'], {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  // As with servers: a test file that is killed must not leave it behind. It ends HAProxy first, if it still can.
  endWithUs(child, patientEnd)
  const file = createWriteStream(join(testRun.folder, `edge-${child.pid}.log`))
  const log: Record<string, unknown>[] = []
  await new Promise<void>((resolve, reject) => {
    const fail = (what: string) => reject(new Error(`gatehouse edge ${what} before it served: ${JSON.stringify(log)}`))
    child.once('exit', (code) => fail(`ended with ${code}`))
    const limit = loadScaledTimeout(60_000)
    setTimeout(() => fail(`took more than ${limit} ms`), limit).unref()
    createInterface({ input: child.stdout }).on('line', (text) => {
      file.write(`${text}\n`)
      const line = JSON.parse(text)
      log.push(line)
      if (line.msg === 'serving from disk') resolve()
    })
  })
  return { child, log }
}
