import { X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { connect as connectTcp, isIP, type Socket } from 'node:net'
import { checkServerIdentity, connect as connectTls } from 'node:tls'
import { certificateNameFault, natsHost } from '../../distribution/nats_connection.ts'
import { answerTimeoutMs } from './finding.ts'

type Greeting = {
  version: string
  /** Undefined when the server has no TLS, or none was asked for. */
  certificate?: { nameFault: string | undefined; trustFault: string | undefined; from: Date; to: Date }
}

/**
 * How a server of NATS introduces itself, before anyone signs in: a line of JSON in clear, and then its certificate. The
 * library says only that a certificate is wrong, and of a good one not when it expires.
 */
export async function greet(server: string, tls: { caFile: string } | undefined): Promise<Greeting> {
  const { host, port } = natsHost(server)
  const socket = connectTcp(port, host)
  socket.setTimeout(answerTimeoutMs, () => socket.destroy(new Error(`no answer within ${answerTimeoutMs / 1_000} s`)))
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
      // Whatever it is like: this is about saying what is wrong with it. Nothing is sent on this connection.
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
