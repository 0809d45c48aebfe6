import { X509Certificate } from 'node:crypto'
import { lookup as systemLookup } from 'node:dns/promises'
import { readFileSync } from 'node:fs'
import { connect as connectTcp, isIP, type Socket } from 'node:net'
import { checkServerIdentity, connect as connectTls } from 'node:tls'
import { certificateNameFault, natsHost } from '../distribution/nats_connection.ts'
import { answerTimeoutMs } from './finding.ts'

type Greeting = {
  version: string
  /** Undefined if the server has no TLS, or none was requested. */
  certificate?: { nameFault: string | undefined; trustFault: string | undefined; from: Date; to: Date }
}

/** An address of the server's name at which no NATS answers, and why. */
export type DeadAddress = { address: string; reason: string }
export type Lookup = (host: string) => Promise<{ address: string }[]>
const lookupAll: Lookup = (host) => systemLookup(host, { all: true })

/**
 * Reads a NATS server's greeting, which precedes authentication. A client uses the first address that answers, so a name
 * with a stale address works until the other one is down: this tries each address.
 */
export async function greet(
  server: string,
  tls: { caFile: string } | undefined,
  lookup: Lookup = lookupAll,
): Promise<Greeting & { dead: DeadAddress[] }> {
  const { host, port } = natsHost(server)
  if (isIP(host)) return { ...(await greetAt(host, host, port, tls)), dead: [] }
  const addresses = await lookup(host).catch(({ code }) => {
    throw new Error(`the name ${host} cannot be resolved (${code})`)
  })
  const answers = await Promise.all(
    addresses.map(({ address }) =>
      greetAt(address, host, port, tls).catch(({ message }: Error) => ({ address, reason: message })),
    ),
  )
  const dead = answers.filter((answer) => 'reason' in answer)
  const alive = answers.find((answer) => 'version' in answer)
  if (!alive) throw new Error(dead.map(({ reason }) => reason).join(', '))
  return { ...alive, dead }
}

/**
 * Reads a line of plain JSON, and then the certificate. The library reports only that a certificate is wrong, and not
 * when a good one expires.
 */
async function greetAt(
  address: string,
  host: string,
  port: number,
  tls: { caFile: string } | undefined,
): Promise<Greeting> {
  const socket = connectTcp(port, address)
  socket.setTimeout(answerTimeoutMs, () =>
    socket.destroy(new Error(`${address} does not answer within ${answerTimeoutMs / 1_000} s`)),
  )
  try {
    const { version, ...info } = await firstLine(socket)
    if (!tls || !(info.tls_required || info.tls_available)) return { version }
    return { version, certificate: await certificateOf(socket, host, tls.caFile) }
  } finally {
    socket.destroy()
  }
}

type Info = { version: string; tls_required?: boolean; tls_available?: boolean }

const firstLine = (socket: Socket): Promise<Info> =>
  new Promise((resolve, reject) => {
    let text = ''
    const fail = (error: Error) => reject(error)
    socket.on('error', fail)
    socket.on('close', () => reject(new Error('the server closed the connection')))
    socket.on('data', function read(chunk: Buffer) {
      text += chunk.toString('latin1')
      const [, json] = /^INFO (\{.*\})\s*\r\n/.exec(text) ?? []
      if (!json && text.length < 100_000 && 'INFO {'.startsWith(text.slice(0, 6))) return
      socket.off('data', read)
      if (json) resolve(JSON.parse(json))
      else reject(new Error('what listens there is not NATS'))
    })
  })

const certificateOf = (socket: Socket, host: string, caFile: string): Promise<Greeting['certificate']> =>
  new Promise((resolve, reject) => {
    const tls = connectTls({
      socket,
      ...(isIP(host) ? {} : { servername: host }),
      ...(caFile && { ca: readFileSync(caFile) }),
      // Accepts an invalid certificate, in order to report what is wrong with it. Nothing is sent on this connection.
      rejectUnauthorized: false,
      // Checked below, to distinguish a wrong name from a wrong authority.
      checkServerIdentity: () => undefined,
    })
    tls.once('error', reject)
    tls.once('close', () => reject(new Error('the server closed the connection')))
    tls.once('secureConnect', () => {
      const certificate = tls.getPeerCertificate()
      const { validFromDate: from, validToDate: to } = new X509Certificate(certificate.raw)
      const wrongName = checkServerIdentity(host, certificate)
      const trustFault = tls.authorizationError ? String(tls.authorizationError) : undefined
      resolve({ nameFault: wrongName && certificateNameFault(wrongName), trustFault, from, to })
      tls.destroy()
    })
  })
