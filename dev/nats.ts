// A real NATS with JetStream for development and tests: its own folder and port, the permissions of deploy/, and the
// lifetime of this process.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { cp, mkdtemp, rename, rm, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { freePort } from './ports.ts'
import { endWithUs } from './run_on_exit.ts'

export type LocalNats = {
  url: string
  port: number
  pid: number
  /** Settings with which the control plane and the edge node edge-1 connect. */
  controlPlane: Record<string, string>
  edge: Record<string, string>
  stop: (signal?: NodeJS.Signals) => Promise<void>
  /** Copies its data folder, for `restart`. */
  copy: () => Promise<void>
  /** Restarts the server with its data, without it, or with the copied data. */
  restart: (options?: { empty?: boolean; toCopy?: boolean }) => Promise<void>
}

const passwords = {
  GATEHOUSE_NATS_CONTROL_PLANE_PASSWORD: 'control-plane',
  GATEHOUSE_NATS_EDGE_1_PASSWORD: 'edge-1',
  GATEHOUSE_NATS_EDGE_2_PASSWORD: 'edge-2',
}

/**
 * Three or more servers that elect leaders. Clients learn about all of them when they connect. `authorization` is the
 * file for each server; that of this version by default.
 */
export async function startNatsCluster(
  size: number,
  authorization?: (server: number) => Promise<string>,
): Promise<LocalNats & { nodes: (LocalNats & { name: string })[] }> {
  const ports = await Promise.all(Array.from({ length: size }, freePort))
  const nodes = await Promise.all(
    ports.map(async (port, index) => {
      const name = `gatehouse-nats-${index + 1}`
      const routes = ports.filter((other) => other !== port)
      const cluster = { name: 'gatehouse', port, routes }
      const users = authorization && { authorization: await authorization(index) }
      return Object.assign(await startNats({ name, cluster, ...users }), { name })
    }),
  )
  const url = nodes.map((node) => node.url).join(',')
  const first = nodes[0] as LocalNats
  return {
    ...first,
    nodes,
    url,
    controlPlane: { ...first.controlPlane, GATEHOUSE_NATS_URL: url, GATEHOUSE_NATS_REPLICAS: String(size) },
    edge: { ...first.edge, GATEHOUSE_NATS_URL: url },
    async stop(signal) {
      await Promise.all(nodes.map((node) => node.stop(signal)))
    },
    async copy() {
      await Promise.all(nodes.map((node) => node.copy()))
    },
    async restart(options) {
      await Promise.all(nodes.map((node) => node.restart(options)))
    },
  }
}

export async function startNats(
  options: {
    cluster?: { name: string; port: number; routes: number[] }
    name?: string
    tls?: { certFile: string; keyFile: string }
    /** The permissions; those of this version by default. */
    authorization?: string
    /** The maximum message size in bytes; the server's default if unset. */
    maxPayload?: number
    /** A leaf server has none. */
    hasJetStream?: boolean
    /** For a server whose address must be known before it starts. */
    port?: number
  } = {},
): Promise<LocalNats> {
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-nats-'))
  const [data, copy] = [join(folder, 'data'), join(folder, 'copy')]
  const port = options.port ?? (await freePort())
  const ours = new URL('../deploy/nats/authorization.conf', import.meta.url).pathname
  const { cluster, name = 'gatehouse-nats', tls, authorization = ours, maxPayload, hasJetStream = true } = options
  // nats-server resolves an included file relative to the including one.
  const config = [
    `server_name: ${name}`,
    `listen: "127.0.0.1:${port}"`,
    ...(hasJetStream ? [`jetstream { store_dir: "${data}" }`] : []),
    ...(maxPayload ? [`max_payload: ${maxPayload}`] : []),
    ...(tls ? [`tls { cert_file: "${tls.certFile}", key_file: "${tls.keyFile}" }`] : []),
    ...(cluster
      ? [
          `cluster { name: ${cluster.name}, listen: "127.0.0.1:${cluster.port}", routes: [${cluster.routes.map((route) => `"nats-route://127.0.0.1:${route}"`).join(', ')}] }`,
        ]
      : []),
    `include ".${'/..'.repeat(folder.split('/').length - 1)}${authorization}"`,
  ]
  await writeFile(join(folder, 'nats.conf'), config.join('\n'))

  async function start() {
    const child = spawn('nats-server', ['-c', join(folder, 'nats.conf')], {
      env: { ...process.env, ...passwords },
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    let output = ''
    child.stderr.on('data', (chunk) => {
      output += chunk
    })
    child.once('error', () => {
      output += "nats-server cannot be started: 'npm run engines' installs it on Debian 12"
    })
    endWithUs(child)
    for (let tries = 0; !(await answers(port)); tries++) {
      if (child.exitCode !== null || tries > 200) throw new Error(`NATS did not start:\n${output}`)
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
    return child
  }
  let child = await start()
  const url = `nats://127.0.0.1:${port}`
  const stop = async (signal: NodeJS.Signals = 'SIGTERM') => {
    if (child.exitCode !== null || child.signalCode !== null) return
    child.kill(signal)
    const killer = setTimeout(() => child.kill('SIGKILL'), 30_000)
    await once(child, 'exit')
    clearTimeout(killer)
  }
  const as = (user: string, password: string) => ({
    GATEHOUSE_NATS_URL: url,
    GATEHOUSE_NATS_USER: user,
    GATEHOUSE_NATS_PASSWORD: password,
  })
  return {
    url,
    port,
    get pid() {
      return child.pid ?? 0
    },
    controlPlane: as('control-plane', 'control-plane'),
    edge: as('edge-1', 'edge-1'),
    async stop(signal) {
      await stop(signal)
      if (signal === undefined) await rm(folder, { recursive: true, force: true })
    },
    async copy() {
      await stop('SIGTERM')
      await cp(data, copy, { recursive: true })
      child = await start()
    },
    async restart({ empty = false, toCopy = false } = {}) {
      await stop('SIGKILL')
      if (empty || toCopy) await rm(data, { recursive: true, force: true })
      if (toCopy) await rename(copy, data)
      child = await start()
    },
  }
}

const answers = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => {
      socket.destroy()
      resolve(true)
    })
    socket.once('error', () => resolve(false))
  })
