// `npm run dev -- --edge`: one edge node with HAProxy, two small upstreams, and something to look at.
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdir, mkdtemp, rm } from 'node:fs/promises'
import { createServer as createHttpServer } from 'node:http'
import { createServer as createTcpServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { joinPatiently } from '../src/commands/edge_node/join.ts'
import { freePort } from './ports.ts'
import { endWithUs } from './run_on_exit.ts'

type Options = { baseUrl: string; token: string; joinToken: string; lastTcpPort: number; withExamples: boolean }
export const devNode = 'edge-1'
export type DevEdge = {
  httpsPort: number
  /** Port of the example TCP edge: the last of the range, so that the others stay free for experiments. */
  tcpPort: number
  /** Port of the HTTP server behind the example route. It responds with the headers that it received. */
  upstreamPort: number
  stop: () => Promise<void>
}

export async function startDevEdge({
  baseUrl,
  token,
  joinToken,
  lastTcpPort: tcpPort,
  withExamples,
}: Options): Promise<DevEdge> {
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-edge-'))
  await chmod(folder, 0o755)
  const certificates = join(folder, 'certificates')
  await mkdir(certificates)
  makeCertificate(join(certificates, 'app.example.pem'), 'app.example', '*.example', '*.app.example', '*.corp.example')
  const [httpsPort, statusPort] = [await freePort(), await freePort()]
  const settings = join(folder, 'joined.env')
  await joinPatiently({ address: baseUrl, token: joinToken, name: devNode, folder, settings })
  const node = spawn(process.execPath, [new URL('../src/main.ts', import.meta.url).pathname, 'edge'], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: {
      ...process.env,
      GATEHOUSE_EDGE_FOLDER: folder,
      GATEHOUSE_EDGE_CERTIFICATES: certificates,
      GATEHOUSE_EDGE_TCP_ADDRESSES: '127.0.0.1',
      GATEHOUSE_EDGE_HTTPS_LISTEN: `127.0.0.1:${httpsPort}`,
      GATEHOUSE_EDGE_STATUS_LISTEN: `127.0.0.1:${statusPort}`,
      // The upstreams of examples and tests are on this machine.
      GATEHOUSE_EDGE_UPSTREAM_ALLOW: '127.0.0.0/8,::1',
      // There is no load balancer to wait for, and Ctrl-C should be quick.
      GATEHOUSE_EDGE_DRAIN_DELAY_SECONDS: '0',
      GATEHOUSE_EDGE_DRAIN_DEADLINE_SECONDS: '0',
      GATEHOUSE_EDGE_MAX_CONNECTIONS: '1000',
      // Its log is not shown, but parsed below.
      GATEHOUSE_LOG_LEVEL: 'info',
    },
  })
  endWithUs(node)
  for await (const line of createInterface({ input: node.stdout })) {
    if (JSON.parse(line).msg === 'connected to NATS') break
  }
  node.stdout.resume()

  const echo = createHttpServer((request, response) =>
    response.end(`${JSON.stringify(request.headers, null, 2)}\n`),
  ).listen(0, '127.0.0.1')
  // A client that leaves early resets its connection, which must not end the installation.
  const greeter = createTcpServer((socket) => socket.on('error', () => {}).end('hello from the upstream\n'))
  greeter.listen(0, '127.0.0.1')
  await Promise.all([once(echo, 'listening'), once(greeter, 'listening')])
  const portOf = (server: { address: () => unknown }) => (server.address() as { port: number }).port
  const upstreamPort = portOf(echo)
  if (withExamples) await makeExamples(baseUrl, token, { echo: upstreamPort, greeter: portOf(greeter), tcpPort })

  return {
    httpsPort,
    tcpPort,
    upstreamPort,
    async stop() {
      echo.close()
      greeter.close()
      if (node.exitCode === null) {
        node.kill('SIGTERM')
        await once(node, 'exit')
      }
      await rm(folder, { recursive: true, force: true })
    },
  }
}

/** Created through the API, like any user would. */
async function makeExamples(
  baseUrl: string,
  token: string,
  ports: { echo: number; greeter: number; tcpPort: number },
): Promise<void> {
  const post = async (path: string, body: object) => {
    const response = await fetch(baseUrl + path, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'service-version': '2', 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
    const answer = (await response.json()) as { id: string; msg?: string }
    if (response.status !== 201) throw new Error(`POST ${path}: ${answer.msg}`)
    return answer.id
  }
  const policy = await post('/ip_policies', { description: 'example: everyone but 127.0.0.9' })
  await post('/ip_policy_rules', { ip_policy_id: policy, action: 'allow', cidr: '127.0.0.0/8' })
  await post('/ip_policy_rules', { ip_policy_id: policy, action: 'deny', cidr: '127.0.0.9' })
  const greeter = await post('/backends/static', {
    description: 'example: greets',
    address: `127.0.0.1:${ports.greeter}`,
  })
  const echo = await post('/backends/static', {
    description: 'example: shows its headers',
    address: `127.0.0.1:${ports.echo}`,
  })
  const restricted = { ip_restriction: { ip_policy_ids: [policy] } }
  await post('/edges/tcp', {
    hostports: [`tcp.example:${ports.tcpPort}`],
    backend: { backend_id: greeter },
    ...restricted,
  })
  const edge = await post('/edges/https', { hostports: ['app.example:443'] })
  await post(`/edges/https/${edge}/routes?wait=applied`, {
    match_type: 'path_prefix',
    match: '/',
    backend: { backend_id: echo },
    ...restricted,
    request_headers: { add: { 'X-From-The-Edge': 'yes' }, remove: ['Cookie'] },
  })
}

/** A self-signed certificate with its key, in one PEM file. */
export function makeCertificate(file: string, name: string, ...more: string[]): void {
  const names = [name, ...more].map((each) => `DNS:${each}`).join()
  const key = ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '30']
  const pem = execFileSync(
    'openssl',
    [...key, '-subj', `/CN=${name}`, '-addext', `subjectAltName=${names}`, '-keyout', '-'],
    { stdio: ['ignore', 'pipe', 'ignore'] },
  )
  execFileSync('tee', [file], { input: pem, stdio: ['pipe', 'ignore', 'ignore'] })
}
