import { asksForCertificate, mutualTlsValue } from '../maps/name_entries.ts'
import { mapFile, type ProxySettings } from '../settings.ts'
import { answers } from './answers.ts'

/** A longer one would leave no room for what a route adds. */
const maxSubjectBytes = 4_096

/**
 * An edge that asks for client certificates. HAProxy has verified them in the handshake, with the authorities in the line of the name
 * that the client asked for (tenant_certificates.ts), which is why that name has to belong to the same edge. A request is looked at
 * all the same: the handshake may be older than what is asked for now. See docs/adr/0140.
 *
 * Before the route is looked up, so that no client without a certificate learns which there are. Until it is, the entry names the account alone, for the
 * line about the request.
 */
export const checkCertificates = (settings: ProxySettings): string => `
  acl is_mutual var(txn.mutual_edge) -m found
  acl mutual_known var(txn.mutual_tls) -m found
  acl sni_known ssl_fc_sni,lower,map_str(${mapFile(settings, 'host')}) -m found
  acl sni_mutual ssl_fc_sni,lower,map_str(${mapFile(settings, 'host')}),strcmp(txn.mutual_edge) eq 0
  acl sni_wildcard_mutual ssl_fc_sni,lower,lua.reverse,map_beg(${mapFile(settings, 'wildcard')}),strcmp(txn.mutual_edge) eq 0
  acl mutual_same var(sess.mutual_tls),strcmp(txn.mutual_tls) eq 0
  acl is_optional var(txn.mutual_tls),${mutualTlsValue.field('mode')} -m str optional
  acl has_certificate var(txn.certificate) -m found
  acl certificate_expired ssl_c_notafter,strcmp(txn.now) lt 0
  http-request set-var(txn.mutual_edge) var(txn.edge) if { var(txn.edge) -m beg ${asksForCertificate} }
  http-request set-var(txn.edge) var(txn.mutual_edge),bytes(1) if is_mutual
  http-request set-var(txn.mutual_tls) var(txn.edge),map_str(${mapFile(settings, 'mutual_tls')}) if is_mutual
  http-request return ${answers.notReady} if is_mutual !mutual_known
  http-request set-var-fmt(txn.entry) "-|%[var(txn.mutual_tls),${mutualTlsValue.field('account')}]" if is_mutual
  http-request return ${answers.misdirected} if is_mutual sni_known !sni_mutual || is_mutual !sni_known !sni_wildcard_mutual
  # What was asked for when the connection had its first request. Later requests get what is asked for now on another connection.
  http-request set-var(sess.mutual_tls) var(txn.mutual_tls) if is_mutual !{ var(sess.mutual_tls) -m found }
  http-request return ${answers.misdirected} hdr Connection close if is_mutual !mutual_same
  http-request set-var(txn.certificate) ssl_c_der,sha2(256),hex,lower if is_mutual { ssl_c_used }
  http-request return ${answers.certificateMissing} if is_mutual !has_certificate !is_optional
  http-request set-var(txn.now) date,utime(%y%m%d%H%M%SZ) if is_mutual
  http-request set-var(txn.certificate_subject) ssl_c_s_dn(,0,rfc2253) if is_mutual has_certificate
  http-request return ${answers.certificateExpired} if is_mutual has_certificate certificate_expired
  http-request return ${answers.certificateRefused} if is_mutual has_certificate !{ ssl_c_verify 0 } || is_mutual { var(txn.certificate_subject) -m len gt ${maxSubjectBytes} }
  http-request set-var(txn.verification) str(none) if is_mutual !has_certificate
  http-request set-var(txn.verification) str(verified) if is_mutual has_certificate
  http-request unset-var(txn.entry) if is_mutual`

/** Once what clients may not send is gone. */
export const forwardCertificate = `
  http-request set-header X-Client-Certificate-Verification %[var(txn.verification)] if { var(txn.verification) -m found }
  http-request set-header X-Client-Certificate-Subject %[var(txn.certificate_subject)] if { var(txn.certificate_subject) -m found }
  http-request set-header X-Client-Certificate-Sha256 %[var(txn.certificate)] if { var(txn.certificate) -m found }`
