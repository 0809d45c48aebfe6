import { isId } from '../../../kernel/ids.ts'
import { formatAddress, parseAddress } from '../../../kernel/ip/address.ts'
import type { UpstreamFailure } from '../../upstreams/failures.ts'

type Told = {
  account: string
  backend: string
  /** HAProxy's termination state, two letters: who ended the request, and when. */
  state: string
  /** `<error>|<TLS error>|<value of the backend>`; see request_lines.ts. */
  fault: string
  isTcp: boolean
}

const dialed = /^(plain|tls)(?:-h2)?\|([^| ]+)\|(\d+)\|([^| ]+)(\|proxy)?$/

/**
 * What a failed request shows about its upstream. Undefined if the upstream is not the cause, or if the backend is
 * native, whose servers have checks. An established TCP connection may end in any way.
 */
export function failureOf({ account, backend, state, fault, isTcp }: Told): UpstreamFailure | undefined {
  if (!/^[SsP]/.test(state) || (isTcp && !state.endsWith('C'))) return undefined
  const [, name = '', tlsText = '', value = ''] = /^([^|]*)\|([^|]*)\|(.*)$/.exec(fault) ?? []
  const [, kind, written = '', port, host, isProxied] = dialed.exec(value) ?? []
  const address = parseAddress(written)
  if (!isId('ac', account) || !isId('bkdst', backend) || !address) return undefined
  const tlsFault = tlsText || '-'
  return {
    account,
    backend,
    address: formatAddress(address),
    port: Number(port),
    reason: reasonOf(state, name, tlsFault, kind === 'tls'),
    // Unset with the PROXY protocol: the agent repeats the handshake to find the reason, and does not send that header.
    ...(host && isCertificate(tlsFault) && !isMismatch(name) && !isProxied && { refusedCertificateOf: host }),
  }
}

const isMismatch = (fault: string): boolean => fault.startsWith('SSL_MISMATCH')
const isCertificate = (tlsFault: string): boolean => tlsFault.endsWith('certificate verify failed')

function reasonOf(state: string, fault: string, tlsFault: string, isTls: boolean): string {
  if (isMismatch(fault)) return "TLS: the certificate is not for the backend's host name"
  if (fault.startsWith('SSL_')) return `TLS: ${tlsReason(tlsFault)}`
  if (state === 'sC') return isTls ? 'the connection or its TLS handshake timed out' : 'the connection timed out'
  if (state.endsWith('C')) return connectReasons[fault] ?? 'the connection failed'
  if (state.startsWith('s')) return 'no response in time'
  return state.startsWith('P') ? 'the response was not valid HTTP' : 'closed the connection without a response'
}

const connectReasons: Record<string, string> = {
  EREFUSED: 'refused the connection',
  ERESET: 'reset the connection',
  EUNREACH: 'the host or network is unreachable',
}

function tlsReason(fault: string): string {
  if (isCertificate(fault)) return 'the certificate is not trusted'
  const text = fault.replace(/^.*:|^-$/, '')
  if (/wrong version number|packet length too long|http/.test(text)) return 'the answer was not TLS'
  const alert = /alert (.+)$/.exec(text)?.[1]
  if (alert) return `rejected the handshake: ${alert}`
  return text ? `the handshake failed: ${text}` : 'closed the connection during the handshake'
}
