import { type Cidr, formatCidr } from '../../../kernel/ip/cidr.ts'
import type { ProxySettings } from '../settings.ts'
import { answers } from './answers.ts'

/**
 * An IPv6 source that has an IPv4 address in it, as those of 6to4 (2002::/16) and ::/96 have, matches the networks of that
 * address in HAProxy. It does not where these are written as IPv6, which HAProxy turns IPv4 sources into before it compares.
 */
const asIpv6 = (network: Cidr): string =>
  formatCidr(network).replace(/^([\d.]+)\/(\d+)$/, (_, address, bits) => `::ffff:${address}/${Number(bits) + 96}`)
/** Who the client is when it comes through a load balancer: docs/adr/0044. */
export const among = (networks: readonly Cidr[]): string => `{ src ${networks.map(asIpv6).join(' ')} }`

/**
 * An IPv4-mapped client is its IPv4 address for policies and reports, so upstreams get that address as well. Our sockets
 * accept none: only what names a client can be one.
 */
const isMapped = '{ src -m reg ^::ffff:[0-9]+[.] }'
const unmapped = 'src,regsub(^::ffff:,)'

/**
 * The header is read after all rules of the connection, which therefore see the destination on this node, and not that
 * on the load balancer.
 */
export const expectProxyProtocol = ({ proxyProtocolFrom = [] }: ProxySettings): string =>
  proxyProtocolFrom.length === 0
    ? ''
    : `
  acl through_balancer var(sess.through_balancer) -m found
  tcp-request connection set-var(sess.through_balancer) bool(true) if ${among(proxyProtocolFrom)}
  tcp-request connection set-var-fmt(sess.peer) "%[src] %[src_port]" if through_balancer
  tcp-request connection expect-proxy layer4 if through_balancer
  # UNKNOWN and LOCAL carry no client address, so the source is still the balancer.
  acl names_no_client var(sess.client),strcmp(sess.peer) eq 0
  tcp-request session set-var-fmt(sess.client) "%[src] %[src_port]" if through_balancer
  tcp-request session set-src ${unmapped} if through_balancer ${isMapped}`

/** As for X-Forwarded-For: the balancer's own address is no client's. Over HTTP with an answer. */
export const refuseUnnamedConnections = ({ proxyProtocolFrom = [] }: ProxySettings): string =>
  proxyProtocolFrom.length === 0 ? '' : '\n  tcp-request session reject if through_balancer names_no_client'
export const refuseUnnamedRequests = ({ proxyProtocolFrom = [] }: ProxySettings): string =>
  proxyProtocolFrom.length === 0
    ? ''
    : `\n  http-request return ${answers.badForwardedFor} if through_balancer names_no_client`

/**
 * There is no PROXY protocol over UDP, so clients behind such a balancer cannot use HTTP/3. Before `expect-proxy`: for a
 * QUIC connection HAProxy 3.4.7 has no function to read the header with, calls it nevertheless, and crashes.
 */
export const refuseHttp3FromBalancers = ({ isHttp3On = false, proxyProtocolFrom = [] }: ProxySettings): string =>
  isHttp3On && proxyProtocolFrom.length > 0
    ? `\n  tcp-request connection reject if { so_name http3 } ${among(proxyProtocolFrom)}`
    : ''

/** From where on `src` is the client. */
export const sourceStage = ({ proxyProtocolFrom = [] }: ProxySettings): 'connection' | 'session' =>
  proxyProtocolFrom.length === 0 ? 'connection' : 'session'

/** How many proxies in a row may vouch for a client. */
const mostHops = 5

/**
 * Read from the right, as far as trusted proxies vouch for it. A trusted proxy that sends no valid address is refused: its
 * own address is no client's, and policies that allow it would let everybody in.
 */
export const forwardedFor = ({ trustedProxies = [] }: ProxySettings): string => {
  if (trustedProxies.length === 0) return ''
  const hop = (from: number) => `
  http-request return ${answers.badForwardedFor} if via_proxy from_proxy { req.hdr_cnt(x-forwarded-for) ge ${from} } !{ req.hdr_ip(x-forwarded-for,-${from}) -m found }
  http-request set-src req.hdr_ip(x-forwarded-for,-${from}) if via_proxy from_proxy { req.hdr_cnt(x-forwarded-for) ge ${from} }`
  return `
  acl from_proxy ${among(trustedProxies).slice(2, -2)}
  acl via_proxy var(txn.via_proxy) -m found
  http-request set-var(txn.via_proxy) bool(true) if from_proxy
  http-request return ${answers.badForwardedFor} if via_proxy { req.hdr_cnt(x-forwarded-for) eq 0 }${Array.from({ length: mostHops }, (_, index) => hop(index + 1)).join('')}
  http-request return ${answers.badForwardedFor} if via_proxy from_proxy { req.hdr_cnt(x-forwarded-for) gt ${mostHops} }
  http-request set-src ${unmapped} if via_proxy ${isMapped}`
}

/** Once for all requests of a connection, where all of them come from one client. */
export const clientAddress = ({ trustedProxies = [] }: ProxySettings): string =>
  trustedProxies.length === 0 ? '%[var(sess.source)]' : '%[src]'
