import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { appendFile, mkdir, mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { makeCertificate } from '../../dev/edge.ts'
import { freePort } from '../../dev/ports.ts'
import { endWithUs, patientEnd } from '../../dev/run_on_exit.ts'
import { type Scope, stop } from '../harness/control_plane.ts'
import type { Installation } from '../harness/edge.ts'
import { poll } from '../harness/poll.ts'
import type { DiskFault } from './child.ts'

const program = new URL('child.ts', import.meta.url).pathname
const none: DiskFault = { skip: 0, count: 0 }
export type FaultyNode = Awaited<ReturnType<typeof startFaultyNode>>

/** An edge node whose disk can be made to fail. */
export async function startFaultyNode(
  scope: Scope,
  { nats, publicKey, tcpPorts, admin }: Installation,
  more: Record<string, string> = {},
) {
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-faulty-'))
  const certificates = join(folder, 'operator')
  await mkdir(certificates)
  makeCertificate(join(certificates, 'default.pem'), '*.example')
  const statusPort = await freePort()
  const statusUrl = `http://127.0.0.1:${statusPort}`
  const env = {
    ...process.env,
    ...nats.edge,
    GATEHOUSE_EDGE_NODE: 'edge-1',
    GATEHOUSE_EDGE_TRUSTED_KEYS: publicKey,
    GATEHOUSE_EDGE_FOLDER: folder,
    GATEHOUSE_EDGE_CERTIFICATES: certificates,
    GATEHOUSE_EDGE_TCP_ADDRESSES: '127.0.0.1',
    GATEHOUSE_TCP_PORTS: `${tcpPorts.first}-${tcpPorts.last}`,
    GATEHOUSE_EDGE_HTTPS_LISTEN: `127.0.0.1:${await freePort()}`,
    GATEHOUSE_EDGE_STATUS_LISTEN: `127.0.0.1:${statusPort}`,
    GATEHOUSE_EDGE_UPSTREAM_ALLOW: '127.0.0.0/8',
    GATEHOUSE_EDGE_DRAIN_DELAY_SECONDS: '0',
    GATEHOUSE_EDGE_DRAIN_DEADLINE_SECONDS: '0',
    ...more,
  }
  /** By operation and file, how often it failed. */
  const failed = new Map<string, number>()
  const log: Record<string, unknown>[] = []
  let child: ChildProcess

  /** Resolves to false when the node could not start. */
  async function start(fault: DiskFault = none): Promise<boolean> {
    const started = fork(program, {
      env: { ...env, GATEHOUSE_TEST_DISK_FAULT: JSON.stringify(fault) },
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    })
    child = started
    endWithUs(started, patientEnd)
    started.on('message', (name) => failed.set(`${name}`, (failed.get(`${name}`) ?? 0) + 1))
    started.stderr?.resume()
    const { promise, resolve } = Promise.withResolvers<boolean>()
    started.once('exit', () => resolve(false))
    if (started.stdout)
      createInterface({ input: started.stdout }).on('line', (text) => {
        const line = JSON.parse(text)
        log.push(line)
        if (line.msg === 'serving from disk') resolve(true)
      })
    return promise
  }

  scope.after(async () => {
    await stop(child)
    await rm(folder, { recursive: true, force: true })
  })
  await start()
  const isLive = async () =>
    (await admin('GET', '/edge_nodes')).body.edge_nodes.some(({ live }: { live: boolean }) => live)
  await poll(isLive)

  return {
    folder,
    statusUrl,
    failed: failed as ReadonlyMap<string, number>,
    log,
    start,
    fail: (fault: DiskFault): void => void child.send(fault),
    heal: (): void => void child.send(none),
    // biome-ignore lint/suspicious/noExplicitAny: what the node says of itself has no schema.
    current: async (): Promise<any> => (await fetch(`${statusUrl}/status`)).json(),
    /** HAProxy keeps running, except with SIGTERM. */
    async leave(signal: 'SIGHUP' | 'SIGKILL' | 'SIGTERM'): Promise<void> {
      child.kill(signal)
      await once(child, 'exit')
    },
    /** Enough superseded lines that the next agent has to shorten it. */
    async lengthenLog(): Promise<void> {
      const file = join(folder, 'records.log')
      const text = await readFile(file)
      const line = text.subarray(text.lastIndexOf(10, -2) + 1)
      await appendFile(file, Buffer.concat(Array.from({ length: 4_200 }, () => line)))
    },
  }
}
