import { readFile } from 'node:fs/promises'
import { isIP } from 'node:net'
import { connect } from 'node:tls'

const timeoutMs = 3_000

export type TlsUpstream = { address: string; port: number; name: string }

/** OpenSSL's codes for faults of a certificate chain. */
const faults: Record<string, string> = {
  CERT_HAS_EXPIRED: 'the certificate has expired',
  CERT_NOT_YET_VALID: 'the certificate is not valid yet',
  DEPTH_ZERO_SELF_SIGNED_CERT: 'the certificate is self-signed',
  SELF_SIGNED_CERT_IN_CHAIN: 'the certificate was issued by an unknown CA',
  UNABLE_TO_GET_ISSUER_CERT: 'the certificate was issued by an unknown CA',
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: 'the certificate was issued by an unknown CA',
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: 'the certificate was issued by an unknown CA, or its chain is incomplete',
  ERR_TLS_CERT_ALTNAME_INVALID: "the certificate is not for the backend's host name",
}

/**
 * HAProxy reports only that it refused a certificate. A handshake with the same address, name and CAs gives the reason,
 * and sends nothing afterwards. Undefined if the reason cannot be found, or the certificate is fine by now.
 */
export async function certificateFault({ address, port, name }: TlsUpstream, caFile: string) {
  const ca = await readFile(caFile)
  const { promise, resolve } = Promise.withResolvers<string | undefined>()
  const servername = isIP(name) ? {} : { servername: name }
  const socket = connect({ host: address, port, ca, ...servername, rejectUnauthorized: false })
  const deadline = setTimeout(() => resolve(undefined), timeoutMs)
  socket.on('error', () => resolve(undefined))
  socket.on('close', () => resolve(undefined))
  socket.on('secureConnect', () => resolve(faults[String(socket.authorizationError)]))
  try {
    return await promise
  } finally {
    clearTimeout(deadline)
    socket.destroy()
  }
}
