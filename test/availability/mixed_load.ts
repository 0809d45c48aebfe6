// What an installation does all day, at a bounded rate: changes of every kind, reads, certificates, events and refused visitors.
import { createServer } from 'node:https'
import { text } from 'node:stream/consumers'
import { connect } from 'node:tls'
import { quickCertificate } from '../harness/quick_certificates.ts'
import { openStream } from '../harness/stream.ts'
import { type Call, get } from './client.ts'
import type { Cluster } from './cluster.ts'
import { redirectTo } from './ledger.ts'
import { pause, poll } from './wait.ts'

const domain = 'soak.example'
const nodes = ['edge-1', 'edge-2'] as const

/** A client that pauses before each call, and notes how long answers took and what was acknowledged. */
export function createPacedClient(api: Call) {
  const [changesMs, readsMs, acknowledged]: [number[], number[], string[]] = [[], [], []]
  const call: Call = async (method, path, body) => {
    await pause(250)
    const answer = await api(method, path, body)
    ;(method === 'GET' ? readsMs : changesMs).push(answer.ms)
    if (method !== 'GET' && answer.status < 300) acknowledged.push(answer.operation)
    return answer
  }
  return { call, changesMs, readsMs, acknowledged }
}

type Expect = (...args: Parameters<Call>) => Promise<{ id: string }>

/** Resolves to a function that ends it, which resolves to what was wrong. */
export async function startMixedLoad(
  cluster: Cluster,
  { call, acknowledged }: ReturnType<typeof createPacedClient>,
): Promise<() => Promise<string[]>> {
  const wrong: string[] = []
  const expect: Expect = async (method, path, body) => {
    const answer = await call(method, path, body)
    if (answer.status >= 300) wrong.push(`${method} ${path}: ${answer.status} ${JSON.stringify(answer.body)}`)
    return answer.body
  }
  const receiver = await startReceiver(cluster, expect)
  // Changes that were committed before the receiver was there, and acknowledged after it.
  await pause(5_000)
  acknowledged.length = 0
  const { policyId, replaceCertificate, remove } = await prepare(cluster, expect)
  const endStreams = startStreams(cluster)
  let isOver = false
  let replaced = 0
  const repeat = async (everyMs: number, work: (turn: number) => Promise<unknown>) => {
    for (let turn = 0, next = Date.now(); !isOver; await pause(200))
      if (Date.now() >= next) {
        await work(turn++).catch((error) => wrong.push(`${error}`))
        next += everyMs
      }
  }
  const stories = storiesOf(expect, policyId)
  const replace = () => replaceCertificate().then(() => replaced++)
  const visit = async (turn: number) => {
    const url = `https://${cluster.machines[nodes[turn % 2] as 'edge-1'].address}/refused`
    const response = await get(url, { host: domain }, domain)
    response.resume()
    if (response.statusCode !== 403) wrong.push(`a visitor to refuse got ${response.statusCode}`)
  }
  const running = Promise.all([
    repeat(60_000, replace),
    repeat(0, async (turn) => stories[turn % stories.length]?.(turn)),
    repeat(1_000, visit),
  ])
  return async () => {
    isOver = true
    await running
    const newest = await replaceCertificate()
    for (const name of nodes)
      await poll(
        () => servedBy(cluster, name),
        (served) => served === newest,
      ).catch(() => wrong.push(`${name} does not serve the newest certificate`))
    const expected = [...acknowledged]
    const missing = () => expected.filter((operation) => !receiver.operations.has(operation))
    await poll(missing, ({ length }) => length === 0, { everyMs: 500 }).catch(() => {})
    wrong.push(...missing().map((operation) => `${operation} was not sent to the webhook destination`))
    const seen = await endStreams()
    if (seen.requests === 0) wrong.push('the streams of requests showed none')
    console.log(
      `   ${missing().length} of ${expected.length} changes without an event at the webhook destination; ${replaced} certificates replaced;\n` +
        `   ${seen.requests} requests on two streams, which were opened ${seen.opened} times`,
    )
    await remove()
    await receiver.end()
    return wrong
  }
}

/** Each leaves nothing behind. */
const storiesOf = (expect: Expect, policyId: string): ((turn: number) => Promise<void>)[] => [
  async (turn) => {
    const { id } = await expect('POST', '/edges/https', { hostports: [`e${turn}.${domain}:443`] })
    await expect('PATCH', `/edges/https/${id}`, { hostports: [`e${turn}.${domain}:443`, `f${turn}.${domain}:443`] })
    await expect('GET', '/edges/https?limit=100')
    await expect('DELETE', `/edges/https/${id}`)
  },
  async (turn) => {
    const { id } = await expect('POST', '/ip_policies', { description: `policy ${turn}` })
    const rules = Array.from({ length: 50 }, (_, at) => ({ cidr: `10.${turn % 200}.${at}.0/24`, action: 'allow' }))
    await expect('PUT', `/ip_policies/${id}/rules`, { rules })
    await expect('GET', `/ip_policies/${id}/rules`)
    await expect('DELETE', `/ip_policies/${id}`)
  },
  async () => {
    const wanted = { type: 'endpoints', enforced: false, ip_policy_ids: [policyId] }
    const { id } = await expect('POST', '/ip_restrictions', wanted)
    await expect('PATCH', `/ip_restrictions/${id}`, { description: 'changed' })
    await expect('GET', '/ip_restrictions')
    await expect('DELETE', `/ip_restrictions/${id}`)
  },
  async (turn) => {
    const { id } = await expect('POST', '/api_keys', { description: `key ${turn}` })
    await expect('POST', `/api_keys/${id}/rotate`, {})
    await expect('GET', '/api_keys?limit=100')
    await expect('DELETE', `/api_keys/${id}`)
  },
  async () => {
    for (const path of ['/audit_events?limit=100', '/requests?limit=100', '/edge_nodes']) await expect('GET', path)
  },
]

/** An edge with a certificate of its own, and a route that refuses every visitor. */
async function prepare(cluster: Cluster, expect: Expect) {
  const certificate = await expect('POST', '/tls_certificates', quickCertificate([domain]))
  const held = JSON.parse(cluster.command('domains', 'assign', cluster.account, domain))
  await expect('PATCH', `/reserved_domains/${held.id}`, { certificate_id: certificate.id })
  const edge = await expect('POST', '/edges/https', { hostports: [`${domain}:443`] })
  const policy = await expect('POST', '/ip_policies', {})
  await expect('PUT', `/ip_policies/${policy.id}/rules`, { rules: [{ cidr: '192.0.2.0/24', action: 'allow' }] })
  const routes = `/edges/https/${edge.id}/routes`
  const route = await expect('POST', routes, { match_type: 'exact_path', match: '/refused', ...redirectTo('refused') })
  await expect('PUT', `${routes}/${route.id}/ip_restriction?wait=applied`, { ip_policy_ids: [policy.id] })
  const replaceCertificate = async () => {
    const pair = quickCertificate([domain])
    await expect('PATCH', `/tls_certificates/${certificate.id}`, pair)
    return pair.certificate_pem.replaceAll(/-.*-|\s/g, '')
  }
  const remove = async () => {
    await expect('DELETE', `/edges/https/${edge.id}`)
    await expect('DELETE', `/reserved_domains/${held.id}`)
    await expect('DELETE', `/tls_certificates/${certificate.id}`)
    await expect('DELETE', `/ip_policies/${policy.id}`)
  }
  return { policyId: policy.id, replaceCertificate, remove }
}

const servedBy = (cluster: Cluster, name: (typeof nodes)[number]): Promise<string> =>
  new Promise((resolve, reject) => {
    const { address: host } = cluster.machines[name]
    const socket = connect({ host, port: 443, servername: domain, rejectUnauthorized: false })
    socket.once('error', reject).once('secureConnect', () => {
      resolve(socket.getPeerCertificate().raw.toString('base64'))
      socket.destroy()
    })
  })

/** At the address of the drill, with a certificate that control planes trust. */
async function startReceiver({ receiver }: Cluster, expect: Expect) {
  const operations = new Set<string>()
  const { certificate_pem: cert, private_key_pem: key } = receiver
  const server = createServer({ cert, key }, async (request, response) => {
    operations.add(JSON.parse(await text(request)).data.operation_id)
    response.writeHead(204).end()
  }).listen(443, receiver.address)
  const { id } = await expect('POST', '/webhook_destinations', { url: `https://${receiver.address}/` })
  return {
    operations,
    async end() {
      await expect('DELETE', `/webhook_destinations/${id}`)
      server.close()
      server.closeAllConnections()
    },
  }
}

/** One client for each control plane that watches requests, and opens its stream again when that ends. */
function startStreams({ machines, token }: Cluster) {
  const seen = { requests: 0, opened: 0 }
  let isOver = false
  const watch = async (name: 'control-1' | 'control-2') => {
    while (!isOver) {
      const headers = { authorization: `Bearer ${token}` }
      const stream = await openStream(`http://${machines[name].address}:8080`, '/requests/stream', headers)
      if (stream.status === 200) seen.opened++
      for (; !isOver && !stream.isOver(); await pause(1_000))
        seen.requests += stream.events.splice(0).filter(({ event }) => event === 'request').length
      stream.close()
    }
  }
  const watching = Promise.all([watch('control-1'), watch('control-2')])
  return async () => {
    isOver = true
    await watching
    return seen
  }
}
