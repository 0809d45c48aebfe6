// SIGTERM to a node: first not ready, then no longer listening, then gone, and no request lost.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { type ClientHttp2Session, connect as connectHttp2 } from 'node:http2'
import { Agent, request } from 'node:https'
import { connect } from 'node:net'
import { after, test } from 'node:test'
import { type EdgeProcess, startInstallation } from '../harness/edge.ts'
import { make, newHttpsEdge } from '../harness/fixtures.ts'
import { pause, poll } from '../harness/poll.ts'
import { startTcpUpstream, wholeFile } from './live_harness.ts'

const scope = wholeFile()
const installation = await startInstallation(scope)
const { admin } = installation
const drained = (delay: number, deadline: number) => ({
  GATEHOUSE_EDGE_DRAIN_DELAY_SECONDS: String(delay),
  GATEHOUSE_EDGE_DRAIN_DEADLINE_SECONDS: String(deadline),
})
let stays = await installation.startEdge()
const web = createServer(async (message, response) => {
  await pause(Number(new URL(message.url ?? '', 'http://web').searchParams.get('ms') ?? 0))
  response.end('web')
}).listen(0, '127.0.0.1')
await once(web, 'listening')
after(() => web.close())
const backend = await make(admin, '/backends/static', {
  address: `127.0.0.1:${(web.address() as { port: number }).port}`,
})
const https = await newHttpsEdge(admin, { hostports: ['web.example:443'] })
await make(admin, `${https.uri}/routes?wait=applied`, {
  match_type: 'path_prefix',
  match: '/',
  backend: { backend_id: backend.id },
})

type Node = Pick<EdgeProcess, 'httpsPort'>
const ask = (node: Node, path = '/', agent: Agent | false = false): Promise<number> =>
  new Promise((resolve) => {
    const named = { servername: 'web.example', headers: { host: 'web.example' } }
    const where = { host: '127.0.0.1', port: node.httpsPort, path, rejectUnauthorized: false }
    request({ ...where, ...named, agent }, (response) => {
      response.on('error', () => resolve(0))
      response.resume().on('end', () => resolve(response.statusCode ?? 0))
    })
      .on('error', () => resolve(0))
      .end()
  })
const askHttp2 = (session: ClientHttp2Session, path = '/'): Promise<number> =>
  new Promise((resolve) => {
    const sent = session.request({ ':path': path, ':authority': 'web.example' })
    let status = 0
    sent.on('response', (headers) => {
      status = Number(headers[':status'])
    })
    sent.on('error', () => resolve(0))
    sent.resume().on('close', () => resolve(status))
  })
const readiness = (node: EdgeProcess) =>
  fetch(`${node.statusUrl}/readyz`).then(
    async (response) => ({ status: response.status, reason: ((await response.json()) as { reason?: string }).reason }),
    () => ({ status: 0, reason: 'gone' }),
  )

/** An open TCP connection that the upstream has greeted, and when it ended; undefined when it was not let in. */
const greeted = (port: number, host: string): Promise<{ closedAt: Promise<number> } | undefined> =>
  new Promise((resolve) => {
    const socket = connect(port, host)
    // Not events.once, whose promise fails with an error of the socket.
    const closedAt = new Promise<number>((closed) => socket.once('close', () => closed(Date.now())))
    socket.once('data', () => resolve({ closedAt })).on('error', () => {})
    socket.once('close', () => resolve(undefined))
  })

/** Under the name of the first, which is the only one that NATS knows here. Ports and addresses are its own. */
async function startSecond(env: Record<string, string>): Promise<EdgeProcess> {
  const node = await installation.startEdge({ env: { GATEHOUSE_EDGE_TCP_ADDRESSES: '127.0.0.2', ...env } })
  await poll(
    () => ask(node),
    (status) => status === 200,
  )
  return node
}

/** Keeps connections, as clients and load balancers do, and sends only to nodes that say they are ready. */
function balance(nodes: EdgeProcess[]) {
  const members = nodes.map((node) => ({
    node,
    isReady: true,
    agent: new Agent({ keepAlive: true }),
    session: undefined as ClientHttp2Session | undefined,
  }))
  const session = (member: (typeof members)[number]) => {
    if (member.session && !member.session.closed && !member.session.destroyed) return member.session
    const opened = connectHttp2(`https://127.0.0.1:${member.node.httpsPort}`, {
      servername: 'web.example',
      rejectUnauthorized: false,
    })
    opened.on('error', () => {})
    // No further request on a connection that its server is about to end.
    opened.on('goaway', () => {
      if (member.session === opened) member.session = undefined
    })
    member.session = opened
    return opened
  }
  let isOver = false
  const checks = (async () => {
    for (; !isOver; await pause(100))
      for (const member of members) member.isReady = (await readiness(member.node)).status === 200
  })()
  return {
    async send(index: number): Promise<number> {
      const ready = members.filter(({ isReady }) => isReady)
      const member = ready[index % ready.length]
      if (!member) return 0
      const path = `/?ms=${index % 20 === 0 ? 700 : 5}`
      return index % 4 < 2 ? ask(member.node, path, member.agent) : askHttp2(session(member), path)
    },
    async end() {
      isOver = true
      await checks
      for (const member of members) {
        member.agent.destroy()
        member.session?.destroy()
      }
    },
  }
}

test('stopping one of two nodes under 200 requests a second fails no request', async (t) => {
  // Longer than a load balancer on a busy machine takes to ask again.
  const announcedMs = 6_000
  const leaves = await startSecond(drained(announcedMs / 1_000, 20))
  const balancer = balance([stays, leaves])
  t.after(balancer.end)
  const statuses: number[] = []
  const began = Date.now()
  let sent = 0
  let isOver = false
  t.after(() => {
    isOver = true
  })
  const send = async () => statuses.push(await balancer.send(sent++))
  const sending = (async () => {
    // By the clock, so that a slow moment of the machine is made up for, but not all at once: we are the upstream as well,
    // and a crowd of new connections would overrun it.
    for (; !isOver || sent < 1_000; await pause(5))
      while (sent < (Date.now() - began) / 5 && sent - statuses.length < 50) void send()
    await poll(() => statuses.length === sent)
  })()
  await pause(2_000)
  const exit = once(leaves.child, 'exit')
  leaves.child.kill('SIGTERM')
  const { status } = await poll(
    () => readiness(leaves),
    (answer) => answer.status !== 200,
    { everyMs: 5 },
  )
  assert.equal(status, 503)
  assert.equal(await ask(leaves), 200, 'it is not ready, and goes on accepting')
  assert.match((await readiness(leaves)).reason ?? '', /^draining/)
  assert.deepEqual(await exit, [0, null])
  const tookMs = Date.now() - began - 2_000
  await pause(1_000)
  isOver = true
  await sending
  const failed = statuses.filter((each) => each !== 200)
  console.log(`${statuses.length} requests, ${failed.length} failed; the node was gone ${tookMs} ms after SIGTERM`)
  assert.deepEqual(failed, [])
  assert.ok(tookMs >= announcedMs)
})

test('while draining, open requests have until the deadline to finish, and nothing new is accepted', async () => {
  const leaves = await startSecond(drained(0, 4))
  const upstream = await startTcpUpstream(scope)
  const tcp = await make(admin, '/backends/static', { address: `127.0.0.1:${upstream.port}` })
  const port = installation.tcpPorts.first
  await make(admin, '/edges/tcp?wait=applied', { hostports: [`tcp.example:${port}`], backend: { backend_id: tcp.id } })
  const held = await poll(() => greeted(port, '127.0.0.2'))
  assert.ok(held)
  const [quick, late] = [ask(leaves, '/?ms=1500'), ask(leaves, '/?ms=20000')]
  const session = connectHttp2(`https://127.0.0.1:${leaves.httpsPort}`, {
    servername: 'web.example',
    rejectUnauthorized: false,
  })
  session.on('error', () => {})
  const [goaway, streamed] = [once(session, 'goaway'), askHttp2(session, '/?ms=1500')]
  await pause(300)
  const exit = once(leaves.child, 'exit')
  const began = Date.now()
  leaves.child.kill('SIGTERM')
  assert.deepEqual((await goaway).slice(0, 2), [0, 2 ** 31 - 1], 'HTTP/2 clients get GOAWAY, and no stream is cut off')
  await poll(
    () => ask(leaves),
    (status) => status === 0,
  )
  assert.deepEqual(await Promise.all([quick, streamed]), [200, 200])
  assert.deepEqual(await exit, [0, null])
  assert.ok(Date.now() - began >= 4_000, 'it waited for the last request until the deadline')
  assert.ok((await held.closedAt) - began >= 4_000, 'and so long TCP connections stayed open')
  assert.equal(await late, 0)
})

test('a later second signal ends the drain immediately and leaves no HAProxy behind', async () => {
  const leaves = await startSecond(drained(60, 60))
  const exit = once(leaves.child, 'exit')
  leaves.child.kill('SIGTERM')
  await poll(() => leaves.log.some(({ msg }) => /^stopping/.test(String(msg))))
  leaves.child.kill('SIGTERM')
  await pause(1_200)
  assert.equal(leaves.child.exitCode, null, 'the same signal twice in a second is one')
  assert.equal(await ask(leaves), 200)
  leaves.child.kill('SIGINT')
  assert.deepEqual(await exit, [0, null])
  assert.equal(await ask(leaves), 0)
})

test('SIGHUP drains nothing: HAProxy keeps running, and the next agent attaches to it', async () => {
  const exit = once(stays.child, 'exit')
  stays.child.kill('SIGHUP')
  assert.deepEqual(await exit, [0, null])
  assert.equal(await ask(stays), 200)
  stays = await installation.startEdge({ like: stays })
  assert.equal(await ask(stays), 200)
  assert.equal((await readiness(stays)).status, 200)
})
