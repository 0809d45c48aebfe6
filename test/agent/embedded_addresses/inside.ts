// Run by embedded_addresses.test.ts in a network of its own, and prints what clients got.
import { connect } from 'node:net'
import { putEnginesOnPath } from '../../../dev/engines.ts'
import { parseCidr } from '../../../src/kernel/ip/cidr.ts'
import type { Scope } from '../../harness/control_plane.ts'
import { drill } from '../../harness/drill.ts'
import { get, putHttpsEdge, putRoute, startHttpUpstream } from '../http_harness.ts'
import { type Edge, firstBytes, id, openConnection, startEdge, startUpstream } from '../proxy_harness.ts'

putEnginesOnPath()
const clients = ['10.0.0.1', '2002:a00:1::1', '::10.0.0.5', '2001:db8::1']
const friend = '203.0.113.5'
const { cidr } = parseCidr('10.0.0.0/8')
const network = cidr ? [cidr] : []
const target = (from: string) => ({ from, to: from.includes(':') ? '::1' : '127.0.0.1' })

async function startTcp(scope: Scope, rules: string[] | null, options: Parameters<typeof startEdge>[1]): Promise<Edge> {
  const edge = await startEdge(scope, options)
  const upstream = await startUpstream(scope, 'hello')
  const backend = id('bkdst')
  await edge.put({
    [`backend.${backend}`]: { address: '127.0.0.1', port: upstream.port, tls: false, host: 'upstream.test' },
    [`tcp.${id('edgtcp')}`]: {
      ...{ account: id('ac'), hostports: [`tcp.example.com:${edge.tcpPort}`], backend },
      policies: rules && [await edge.policy(...rules)],
    },
  })
  return edge
}
const forEach = async <Value>(some: string[], of: (client: string) => Promise<Value>) => {
  const found: Record<string, Value> = {}
  for (const client of some) found[client] = await of(client)
  return found
}

await drill(async (scope) => {
  const https = await startEdge(scope, { certificates: ['app.example.com'], more: { trustedProxies: network } })
  const policies = [await https.policy(`allow ${friend}`)]
  await putRoute(https, await putHttpsEdge(https), await startHttpUpstream(scope), { policies })
  const headers = [`X-Forwarded-For: ${friend}`]
  const forwardedFor = await forEach(clients, async (from) => (await get(https, { ...target(from), headers })).status)

  const named = await startTcp(scope, [`allow ${friend}`], { more: { proxyProtocolFrom: network } })
  const proxyProtocol = await forEach(clients, async (from) => {
    const socket = connect({ host: target(from).to, port: named.tcpPort, localAddress: from })
    socket.write(`PROXY TCP4 ${friend} 192.0.2.1 4711 9\r\n`)
    return new Promise<string>((resolve) => {
      socket.on('data', (data) => resolve(String(data)))
      socket.on('error', () => resolve('')).on('close', () => resolve(''))
    }).finally(() => socket.destroy())
  })

  const perSource = { perSource: 2, perEdge: 1_000, perAccount: 1_000 }
  const hold = async (edge: Edge, from: string) => {
    const held = [1, 2].map(() => openConnection({ ...target(from), port: edge.tcpPort }))
    scope.after(async () => {
      for (const socket of held) socket.destroy()
    })
    await Promise.all(held.map((socket) => new Promise((resolve) => socket.once('data', resolve))))
  }
  const counted = await startTcp(scope, null, { limits: { ...perSource, unlimitedSources: [] } })
  await hold(counted, '2002:a00:1::1')
  const others = ['10.0.0.1', '2002:a00:1::2', '::10.0.0.5', '2001:db8::1']
  const limits = await forEach(others, (from) => firstBytes({ ...target(from), port: counted.tcpPort }))

  const spared = await startTcp(scope, null, { limits: { ...perSource, unlimitedSources: network } })
  for (const from of ['10.0.0.1', '2002:a00:1::1']) await hold(spared, from)
  const unlimited = await forEach(['10.0.0.1', '2002:a00:1::1'], (from) =>
    firstBytes({ ...target(from), port: spared.tcpPort }),
  )
  console.log(JSON.stringify({ forwardedFor, proxyProtocol, limits, unlimited }))
  return true
})
