import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { connect, createServer, type Server, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { freePorts } from '../../dev/ports.ts'
import { createProxy, type EdgeProxy } from '../../src/agent/haproxy/apply.ts'
import { receiveEvents } from '../../src/agent/haproxy/lines/events.ts'
import { statRows } from '../../src/agent/haproxy/lines/stats.ts'
import { difference, type Entry, entriesOf, readyEntries } from '../../src/agent/haproxy/maps/entries.ts'
import type { ProxyOptions } from '../../src/agent/haproxy/process/lifetime.ts'
import { ask } from '../../src/agent/haproxy/process/runtime.ts'
import { type Limits, type ProxySettings, policyFolder } from '../../src/agent/haproxy/settings.ts'
import type { Observation } from '../../src/agent/reports/health.ts'
import { createRequestFeed, type RequestLine } from '../../src/agent/requests/feed.ts'
import { type Verdict, verdictsOf } from '../../src/agent/requests/hits.ts'
import type { LineReader } from '../../src/agent/requests/ring_reader.ts'
import { createFailureWindow } from '../../src/agent/upstreams/failure_window.ts'
import type { UpstreamFailure } from '../../src/agent/upstreams/failures.ts'
import { type IdPrefix, newId } from '../../src/kernel/ids.ts'
import { parseCidr } from '../../src/kernel/ip/cidr.ts'
import { type Action, compilePolicy, type RangeTable } from '../../src/kernel/ip/ranges.ts'
import type { Scope } from '../harness/control_plane.ts'
import { poll } from '../harness/poll.ts'

export const id = (prefix: IdPrefix): string => newId(prefix)

/** A policy file as the publisher makes it; `rules` such as 'allow 10.0.0.0/8'. */
export function policyFile(...rules: string[]): Buffer {
  const { v4, v6 } = compilePolicy(
    rules.map((line) => {
      const [action, range = ''] = line.split(' ')
      const { cidr, fault } = parseCidr(range)
      if (!cidr) throw new Error(fault)
      return { action: action as Action, cidr }
    }),
  )
  const counts = Buffer.alloc(8)
  counts.writeUInt32BE(v4.verdicts.length, 0)
  counts.writeUInt32BE(v6.verdicts.length, 4)
  return Buffer.concat([Buffer.from('GHP1'), counts, records(v4, 1), records(v6, 4)])
}

function records({ starts, verdicts }: RangeTable, words: number): Buffer {
  const size = 4 * words + 1
  const bytes = Buffer.alloc(verdicts.length * size)
  for (const [index, verdict] of verdicts.entries()) {
    for (let word = 0; word < words; word++) {
      bytes.writeUInt32BE(starts[index * words + word] ?? 0, index * size + 4 * word)
    }
    bytes.writeUInt8(verdict === 0 ? 0 : verdict > 0 ? 1 : 2, index * size + size - 1)
  }
  return bytes
}

export type Edge = {
  settings: ProxySettings
  proxy: EdgeProxy
  tcpPort: number
  httpsPort: number
  events: Verdict[]
  /** What HAProxy has told about requests and connections. */
  lines: RequestLine[]
  reader: LineReader
  failures: UpstreamFailure[]
  /** What HAProxy says when Lua fails. */
  luaFaults: string[]
  /** What checks of native backends have found. */
  health: Observation[]
  troubles: Error[]
  /** Gives each record its new value at once; null deletes. Resolves when it is in force. */
  put: (records: Record<string, unknown>) => Promise<void>
  all: () => Entry[]
  /** Writes the file too; resolves to the policy's id. */
  policy: (...rules: string[]) => Promise<string>
  writePolicyFile: (...rules: string[]) => Promise<string>
  /** A restarted agent with the same records and the same HAProxy. */
  restartAgent: (records?: Record<string, unknown>) => Promise<void>
}

export async function startEdge(
  t: Scope,
  {
    options = {},
    caFile,
    certificates,
    limits,
    maxconn = 2_000,
    isCarefulOnly = false,
    more = {},
  }: {
    options?: ProxyOptions
    caFile?: string
    certificates?: string[]
    limits?: Limits
    maxconn?: number
    isCarefulOnly?: boolean
    more?: Partial<ProxySettings>
  } = {},
): Promise<Edge> {
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-edge-'))
  const [tcpPort = 0, , , , httpsPort = 0] = await freePorts(5)
  const settings: ProxySettings = {
    folder,
    tcpBind: { addresses: ['127.0.0.1', '127.0.0.9', '::1'], first: tcpPort, last: tcpPort + 3 },
    httpsBind: [`127.0.0.1:${httpsPort}`, `[::1]:${httpsPort}`],
    certificateFolder: join(folder, 'operator'),
    runtimeSocket: join(folder, 'runtime.sock'),
    masterSocket: join(folder, 'master.sock'),
    threads: 2,
    caFile: caFile ?? '/etc/ssl/certs/ca-certificates.crt',
    maxconn,
    isCarefulOnly,
    ...(limits && { limits }),
    ...more,
  }
  await mkdir(settings.certificateFolder, { recursive: true })
  for (const name of certificates ?? []) await selfSigned(settings, name)
  const events: Verdict[] = []
  const lines: RequestLine[] = []
  const troubles: Error[] = []
  const failures: UpstreamFailure[] = []
  const luaFaults: string[] = []
  const health: Observation[] = []
  const feed = createRequestFeed()
  const isToNote = createFailureWindow()
  feed.subscribeToLines((_request, line) => {
    lines.push(line)
    events.push(...verdictsOf(line))
    if (line.failure && isToNote(line.failure, Date.now())) failures.push(line.failure)
  })
  const reader = await receiveEvents(
    settings,
    { node: 'edge-1', generationAt: () => 1 },
    {
      feed,
      onServerChange: (native) => edge.proxy.serverChanged(native),
      onLuaFault: (fault) => luaFaults.push(fault),
    },
  )
  const current = new Map<string, Entry[]>([['ready', [...readyEntries]]])
  const all = () => [...current.values()].flat()
  const make = () =>
    createProxy(settings, {
      onTrouble: (problem) => troubles.push(problem),
      onHealth: (seen) => health.push(seen),
      // Tests write to HAProxy's socket, and want to see what comes of it.
      comparisonMs: 3_600_000,
      ...options,
    })
  const edge: Edge = {
    settings,
    proxy: make(),
    tcpPort,
    httpsPort,
    events,
    lines,
    reader,
    failures,
    luaFaults,
    health,
    troubles,
    all,
    async put(sent) {
      // As the publisher does: an account that owns an edge has a record of its restrictions.
      const accounts = Object.values(sent).flatMap((value) => (value as { account?: string } | null)?.account ?? [])
      const unknown = accounts.map((account) => `restrictions.${account}`).filter((key) => !current.has(key))
      const records = { ...Object.fromEntries(unknown.map((key) => [key, { sets: [] }])), ...sent }
      const before = Object.keys(records).flatMap((key) => current.get(key) ?? [])
      for (const [key, value] of Object.entries(records)) current.set(key, entriesOf(key, value))
      const after = Object.keys(records).flatMap((key) => current.get(key) ?? [])
      await edge.proxy.apply(difference(before, after))
    },
    async policy(...rules) {
      const policy = id('ipp')
      await edge.put({ [`policy.${policy}`]: await edge.writePolicyFile(...rules) })
      return policy
    },
    async writePolicyFile(...rules) {
      const bytes = policyFile(...rules)
      const hash = createHash('sha256').update(bytes).digest('hex')
      await mkdir(policyFolder(settings), { recursive: true })
      await writeFile(join(policyFolder(settings), hash), bytes)
      return hash
    },
    async restartAgent(records = {}) {
      await edge.proxy.detach()
      for (const [key, value] of Object.entries(records)) current.set(key, entriesOf(key, value))
      edge.proxy = make()
      await edge.proxy.start(all())
    },
  }
  t.after(async () => {
    await edge.proxy.stop()
    await reader.close()
    await rm(folder, { recursive: true, force: true })
  })
  await edge.proxy.start(all())
  return edge
}

/**
 * What the edge has told of refusals and warnings, in any order: HAProxy answers a request before it logs it, and the next
 * one may be on another of its threads.
 */
export async function assertEvents({ events }: Edge, expected: readonly Verdict[]): Promise<void> {
  const sorted = (verdicts: readonly Verdict[]) =>
    verdicts.map(({ outcome, restriction, target, source }) => [outcome, restriction, target, source].join()).sort()
  await poll(() => events.length >= expected.length)
  assert.deepEqual(sorted(events), sorted(expected))
}

/** What holds for requests holds on the fast path of the proxy, and when all of them take the careful one. */
export function onBothPaths(title: string, run: (t: TestContext, start: typeof startEdge) => Promise<void>): void {
  test(title, (t) => run(t, startEdge))
  test(`${title} (careful path)`, (t) =>
    run(t, (context, options) => startEdge(context, { ...options, isCarefulOnly: true })))
}

/** Into the operator's folder, as a restart-free deployment of a certificate would be. */
export async function selfSigned({ certificateFolder }: Pick<ProxySettings, 'certificateFolder'>, name: string) {
  const file = join(certificateFolder, `${name.replace('*', 'wildcard')}.pem`)
  const args = ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2']
  const pem = execFileSync(
    'openssl',
    [...args, '-subj', `/CN=${name}`, '-addext', `subjectAltName=DNS:${name}`, '-keyout', '-', '-out', '-'],
    { stdio: ['ignore', 'pipe', 'ignore'] },
  )
  await writeFile(file, pem)
  return file
}

export type Upstream = { port: number; accepts: number; received: string; sockets: Set<Socket>; server: Server }

/** Answers every connection with its name, then keeps it and all that it receives. */
export async function startUpstream(t: Scope, greeting: string): Promise<Upstream> {
  const upstream = { accepts: 0, received: '', sockets: new Set<Socket>() } as Upstream
  upstream.server = createServer((socket) => {
    upstream.accepts++
    upstream.sockets.add(socket)
    socket.on('error', () => {})
    socket.on('close', () => upstream.sockets.delete(socket))
    socket.on('data', (bytes) => {
      upstream.received += bytes.toString('latin1')
    })
    socket.write(greeting)
  })
  await new Promise<void>((resolve) => upstream.server.listen(0, '127.0.0.1', resolve))
  upstream.port = (upstream.server.address() as { port: number }).port
  t.after(async () => {
    for (const socket of upstream.sockets) socket.destroy()
    upstream.server.close()
  })
  return upstream
}

export type Visit = { from?: string; to?: string; port: number }

export function openConnection({ from, to = '127.0.0.1', port }: Visit): Socket {
  const socket = connect({ host: to, port, localAddress: from })
  socket.on('error', () => {})
  return socket
}

/** What a client reads first; '' when the connection was closed on it. */
export async function firstBytes(visit: Visit): Promise<string> {
  const socket = openConnection(visit)
  const bytes = await new Promise<string>((resolve) => {
    socket.once('data', (data) => resolve(String(data)))
    socket.once('close', () => resolve(''))
    socket.once('end', () => resolve(''))
  })
  socket.destroy()
  return bytes
}

/** What HAProxy has counted in a column of its statistics, for one backend or for all of them. */
export async function backendTotal({ settings }: Edge, column: string, backend = '-1'): Promise<number> {
  const rows = statRows(await ask(settings.runtimeSocket, `show stat ${backend} 2 -1`))
  return rows.reduce((sum, row) => sum + Number(row(column) || assert.fail(column)), 0)
}
