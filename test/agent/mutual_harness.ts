import { X509Certificate } from 'node:crypto'
import { connect, type TLSSocket } from 'node:tls'
import { createCertificates } from '../../src/agent/certificates/certificates.ts'
import { newNodeKey, readNodeKey } from '../../src/distribution/delivery.ts'
import type { EdgeRecord, RecordKey } from '../../src/distribution/records.ts'
import { systemTiming } from '../../src/kernel/system_timing.ts'
import type { Issued } from '../harness/client_pki.ts'
import type { Scope } from '../harness/control_plane.ts'
import { type Edge, id, startEdge } from './proxy_harness.ts'

export type MutualEdge = Edge & {
  /** As a step of the agent does: what names ask for first, then the maps. */
  apply: (records: Record<string, object | null>) => Promise<void>
  certificates: ReturnType<typeof createCertificates>
  known: Map<RecordKey, EdgeRecord>
  faults: string[]
}

export async function startMutualEdge(t: Scope, options: Parameters<typeof startEdge>[1]): Promise<MutualEdge> {
  const edge = await startEdge(t, options)
  const known = new Map<RecordKey, EdgeRecord>()
  const faults: string[] = []
  const names = {
    ...edge.proxy.names,
    serve: (change: Parameters<typeof edge.proxy.names.serve>[0]) => edge.proxy.names.serve(change),
    served: () => edge.proxy.names.served(),
    taken: () => edge.proxy.names.taken(),
  }
  const certificates = createCertificates({
    clock: systemTiming.elapsed,
    known,
    node: 'edge-1',
    nodeKey: readNodeKey(newNodeKey().privateKey),
    names,
    refusals: { refuse: ({ reason }) => faults.push(reason), accept: () => {} },
  })
  let generation = 0
  return Object.assign(edge, {
    known,
    certificates,
    faults,
    async apply(records: Record<string, object | null>) {
      for (const [key, value] of Object.entries(records))
        known.set(key as RecordKey, {
          key: key as RecordKey,
          generation: ++generation,
          value: value as EdgeRecord['value'],
        })
      const ofEdges = Object.keys(records).filter((key) => /^(https|mutual_tls)\./.test(key)) as RecordKey[]
      await certificates.applyEdges(ofEdges)
      await edge.put(records)
    },
  })
}

/** An edge with one route, under the first kind of record or the second. */
export async function putMutual(
  edge: MutualEdge,
  {
    host,
    authorities,
    port,
    mode = 'required',
    account = id('ac'),
    https = id('edghts'),
  }: {
    host: string
    authorities: readonly Issued[]
    port: number
    mode?: 'required' | 'optional'
    account?: string
    https?: string
  },
): Promise<{ https: string; account: string }> {
  const [backend, route] = [id('bkdst'), id('edghtsrt')]
  await edge.apply({
    [`backend.${backend}`]: { address: '127.0.0.1', host: '127.0.0.1', port, tls: false },
    [`mutual_tls.${https}`]: mutualRecord({ host, authorities, mode, account }),
    [`route.${route}`]: {
      ...{ account, edge: https, match_type: 'path_prefix', match: '/', backend, policies: null, headers: null },
    },
  })
  return { https, account }
}

export const mutualRecord = ({
  host,
  authorities,
  mode = 'required',
  account,
}: {
  host: string
  authorities: readonly Issued[]
  mode?: 'required' | 'optional'
  account: string
}) => ({
  ...{ account, hostports: [`${host}:443`], mode },
  authorities: authorities.map(({ pem }) => `${new X509Certificate(pem).toString().trimEnd()}\n`),
})

export type Visit = {
  servername?: string
  host?: string
  client?: Issued | undefined
  session?: Buffer | undefined
  tls?: 'TLSv1.2' | 'TLSv1.3'
  headers?: string[]
  path?: string
}
export type Visited = {
  /** 0 when the handshake failed, or the connection ended without an answer. */
  status: number
  text: string
  error?: string | undefined
  session?: Buffer | undefined
  isReused: boolean
}

/** A connection that stays open, for several requests. */
export class Client {
  readonly socket: TLSSocket
  session: Buffer | undefined
  error: string | undefined
  private text = ''
  private wake: () => void = () => {}
  private isOver = false

  constructor(edge: Pick<Edge, 'httpsPort'>, { servername, client, session, tls }: Visit) {
    this.socket = connect({
      ...{ host: '127.0.0.1', port: edge.httpsPort, servername: servername ?? 'app.example.com' },
      ...{ rejectUnauthorized: false, ALPNProtocols: ['http/1.1'], ciphers: 'DEFAULT@SECLEVEL=0' },
      ...(client && { cert: client.pem + client.chain, key: client.key }),
      ...(session && { session }),
      ...(tls && { minVersion: tls, maxVersion: tls }),
    })
    this.socket.on('session', (found: Buffer) => {
      this.session = found
    })
    this.socket.on('data', (bytes: Buffer) => {
      this.text += bytes.toString('latin1')
      this.wake()
    })
    this.socket.on('error', ({ message }) => {
      this.error = message
      this.end()
    })
    this.socket.on('close', () => this.end())
  }

  private end(): void {
    this.isOver = true
    this.wake()
  }

  async get({ host = 'app.example.com', headers = [], path = '/' }: Visit = {}): Promise<Visited> {
    this.text = ''
    if (!this.isOver) this.socket.write(`${[`GET ${path} HTTP/1.1`, `Host: ${host}`, ...headers].join('\r\n')}\r\n\r\n`)
    const isWhole = () => {
      const at = this.text.indexOf('\r\n\r\n')
      const length = Number(/^content-length: (\d+)/im.exec(this.text)?.[1] ?? 0)
      return at >= 0 && this.text.length >= at + 4 + length
    }
    while (!isWhole() && !this.isOver) {
      const { promise, resolve } = Promise.withResolvers<void>()
      this.wake = resolve
      await promise
    }
    return {
      ...{ status: Number(/^HTTP\/1.1 (\d+)/.exec(this.text)?.[1] ?? 0), text: this.text, error: this.error },
      ...{ session: this.session, isReused: this.socket.isSessionReused() },
    }
  }

  close(): void {
    this.socket.destroy()
  }
}

/** Waits for a session that can be resumed, where the answer was good. */
export async function visit(edge: Pick<Edge, 'httpsPort'>, options: Visit = {}): Promise<Visited> {
  const { servername = options.host ?? 'app.example.com', host = servername } = options
  const client = new Client(edge, { ...options, servername })
  const answer = await client.get({ ...options, host })
  client.close()
  return answer
}
