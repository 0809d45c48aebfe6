import { join } from 'node:path'
import type { Cidr } from '../../kernel/ip/cidr.ts'
import type { MapName } from './maps/entries.ts'

/**
 * Limits for one source, one edge and one account: TCP connections and HTTPS requests in flight, and for a source also
 * its HTTPS connections. See docs/adr/0032.
 */
export type Limits = {
  readonly perSource: number
  readonly perEdge: number
  readonly perAccount: number
  /** Sources without a limit, such as load balancers that connect on behalf of many clients. */
  readonly unlimitedSources: readonly Cidr[]
}

/** Limits native backends in HAProxy: each server takes memory and check traffic. */
export type NativeBudget = { readonly servers: number; readonly checksPerSecond: number }

/** The operator's settings for the proxy of an edge node. Nothing here comes from a tenant. */
export type ProxySettings = {
  /** The agent's own folder: the configuration, maps/, policies/ and the files of the process. */
  readonly folder: string
  /** Each address listens on every port from `first` to `last`. */
  readonly tcpBind: { readonly addresses: readonly string[]; readonly first: number; readonly last: number }
  /** `address:port`; IPv6 addresses in brackets. */
  readonly httpsBind: readonly string[]
  /** Serves HTTP/3 on the same addresses and ports, over UDP. */
  readonly isHttp3On?: boolean
  /** Like `httpsBind`, for plain HTTP, which is only redirected. Unset: no listener. */
  readonly httpBind?: readonly string[]
  /** Load balancers that start each connection with a PROXY protocol header. Without the header they are refused. */
  readonly proxyProtocolFrom?: readonly Cidr[]
  /** Proxies whose X-Forwarded-For names the client. */
  readonly trustedProxies?: readonly Cidr[]
  /** PEM files with chain and key; the names in the certificate decide which one a client gets. */
  readonly certificateFolder: string
  readonly runtimeSocket: string
  readonly masterSocket: string
  /** The requests that HAProxy reports to the agent; all if unset. See request_lines.ts. */
  readonly requestLines?: RequestLines
  readonly threads: number
  /** The authorities that must have signed upstreams' certificates. */
  readonly caFile: string
  readonly maxconn: number
  /** Shares of `maxconn` if unset. */
  readonly limits?: Limits
  /** Limits for servers of native backends; see native/model.ts. */
  readonly nativeBudgets?: { readonly perNode?: NativeBudget; readonly perAccount?: NativeBudget }
  /** Per thread; 64 MiB if unset. */
  readonly policyCacheBytes?: number
  /** Only for tests: Lua's memory limit for all threads. */
  readonly luaMegabytes?: number
  /** Only for tests that compare the two paths: disables the rules of fast_path.ts. */
  readonly isCarefulOnly?: boolean
  /** Only for tests, which cannot wait a minute for a silent peer. */
  readonly responseTimeoutMs?: number
  /** `haproxy` from PATH if unset. */
  readonly binary?: string
}

export type RequestLines = 'all' | 'exceptions'

export const configFile = ({ folder }: ProxySettings): string => join(folder, 'haproxy.cfg')
export const policyFolder = ({ folder }: ProxySettings): string => join(folder, 'policies')
export const mapFolder = ({ folder }: ProxySettings): string => join(folder, 'maps')
export const mapFile = (settings: ProxySettings, map: MapName): string => join(mapFolder(settings), `${map}.map`)
export const lineSocket = ({ folder }: ProxySettings): string => join(folder, 'lines.sock')
/** Responses of HAProxy's parser; see answers.ts. */
export const answerFolder = ({ folder }: ProxySettings): string => join(folder, 'answers')
/** Copies of the operator's usable certificates; see certificates.ts. */
export const loadedCertificateFolder = ({ folder }: ProxySettings): string => join(folder, 'certificates')
/** The crt-list of these, without names for which accounts ask clients for certificates. */
export const operatorList = ({ folder }: ProxySettings): string => join(folder, 'certificates.list')
/** Client authorities, named by the hash of their PEM. */
export const authorityFolder = ({ folder }: ProxySettings): string => join(folder, 'authorities')

/** Certificates of accounts, and the list that assigns names to them; see tenant_certificates.ts. */
export const tenantFolder = ({ folder }: ProxySettings): string => join(folder, 'tenants')
export const tenantList = ({ folder }: ProxySettings): string => join(folder, 'tenants.list')

/** Keep one source, edge or account from exhausting a node: docs/adr/0032. */
export const defaultShares = { perSource: 0.05, perEdge: 0.25, perAccount: 0.5 }
export const limitsOf = ({ limits, maxconn }: ProxySettings): Limits =>
  limits ?? {
    perSource: Math.ceil(defaultShares.perSource * maxconn),
    perEdge: Math.ceil(defaultShares.perEdge * maxconn),
    perAccount: Math.ceil(defaultShares.perAccount * maxconn),
    unlimitedSources: [],
  }
