import { formatAddress, parseAddress } from '../../kernel/ip/address.ts'
import type { UpstreamFailure } from '../upstreams/failures.ts'
import type { EntryVariable } from './rules.ts'

/** For `upstream_failed` in gatehouse.lua. The errors are no variables, and only those can be joined to another value. */
const failed = (entry: EntryVariable) =>
  `%[bc_err_name,set-var(txn.fault)]%[ssl_bc_err_str,set-var(txn.tls_fault)]%[txn.sess_term_state,concat(|,txn.fault,|),concat(,txn.tls_fault,|),concat(,txn.backend,||),concat(,${entry}),lua.upstream_failed]`

/**
 * Good requests pay for one look at their status. Of the others, those that the edge itself has answered have a
 * termination state: S and s for what the upstream did or did not do, P for a response that cannot be read.
 */
export const noteFailedRequest = `
  http-after-response set-var-fmt(txn.failed) "${failed('txn.entry')}" if { status 502 503 504 } { txn.sess_term_state -m beg S s P }`

/**
 * There are no rules for a connection that could not be opened, only its log, which HAProxy writes for nothing but
 * failures here. Writing it is what asks Lua, so the line itself goes into a ring that nobody reads.
 */
export const noteFailedConnection = `
  log ring@discarded format raw local0
  option dontlog-normal
  log-format "${failed('sess.entry')}"`
export const discardedLog = `ring discarded
  size 16384
`

/** `gatehouse failed <account> <backend> <value of the backend> <state> <error> <TLS error>`, with - for no error. */
const line =
  /^gatehouse failed (ac_[0-9a-z]+) (bkdst_[0-9a-z]+) (plain|tls)(?:-h2)?\|([^| ]+)\|(\d+)\|([^| ]+)(\|proxy)? ([SsP][A-Z]) (\S+) (.+?) ?\.?$/

/** Undefined for anything else. */
export function parseFailure(text: string): UpstreamFailure | undefined {
  const [, account, backend, kind, written = '', port, name, isProxied, state = '', fault = '', tlsFault = ''] =
    line.exec(text) ?? []
  const address = parseAddress(written)
  if (!account || !backend || !address) return undefined
  const isTls = kind === 'tls'
  return {
    account,
    backend,
    address: formatAddress(address),
    port: Number(port),
    reason: reasonOf(state, fault, tlsFault, isTls),
    // Not where the handshake comes after a PROXY protocol header, which nobody but HAProxy sends.
    ...(name && isCertificate(tlsFault) && !isMismatch(fault) && !isProxied && { refusedCertificateOf: name }),
  }
}

const isMismatch = (fault: string): boolean => fault.startsWith('SSL_MISMATCH')
const isCertificate = (tlsFault: string): boolean => tlsFault.endsWith('certificate verify failed')

/** What HAProxy knows about the error, in plain words. */
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
