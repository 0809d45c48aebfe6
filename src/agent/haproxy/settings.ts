import { join } from 'node:path'
import type { Cidr } from '../../kernel/ip/cidr.ts'
import type { MapName } from './maps/entries.ts'

/**
 * How much of the node one source, one edge and one account may use at once: TCP connections and HTTPS requests in
 * flight, and for a source also its HTTPS connections. See docs/adr/0032.
 */
export type Limits = {
  readonly perSource: number
  readonly perEdge: number
  readonly perAccount: number
  /** Without the limit per source, such as load balancers that connect for everybody. */
  readonly unlimitedSources: readonly Cidr[]
}

/** How much of HAProxy native backends may take: each server takes memory and is checked. */
export type NativeBudget = { readonly servers: number; readonly checksPerSecond: number }

/** What the operator decides about the proxy of one edge node. Nothing in here comes from a tenant. */
export type ProxySettings = {
  /** Ours alone: the configuration, maps/, policies/ and the process's own files. */
  readonly folder: string
  /** Each address listens on every port from `first` to `last`. */
  readonly tcpBind: { readonly addresses: readonly string[]; readonly first: number; readonly last: number }
  /** `address:port`; IPv6 addresses in brackets. */
  readonly httpsBind: readonly string[]
  /** Serves HTTP/3 on the same addresses and ports, over UDP. */
  readonly isHttp3On?: boolean
  /** The same for plain HTTP, which is only redirected; nothing listens when not given. */
  readonly httpBind?: readonly string[]
  /** Load balancers that begin each connection with a PROXY protocol header, and are refused without one. */
  readonly proxyProtocolFrom?: readonly Cidr[]
  /** Proxies whose X-Forwarded-For names the client. */
  readonly trustedProxies?: readonly Cidr[]
  /** PEM files with chain and key; the names in the certificate decide which one a client gets. */
  readonly certificateFolder: string
  readonly runtimeSocket: string
  readonly masterSocket: string
  /** Which requests HAProxy tells the agent about; all when not given. See request_lines.ts. */
  readonly requestLines?: RequestLines
  readonly threads: number
  /** The authorities that must have signed upstreams' certificates. */
  readonly caFile: string
  readonly maxconn: number
  /** Shares of `maxconn` when not given. */
  readonly limits?: Limits
  /** How many servers of native backends there may be; see native/model.ts. */
  readonly nativeBudgets?: { readonly perNode?: NativeBudget; readonly perAccount?: NativeBudget }
  /** For each thread; 64 MiB when not given. */
  readonly policyCacheBytes?: number
  /** Only tests set it: what Lua may use of memory, in all threads. */
  readonly luaMegabytes?: number
  /** For tests that compare the two paths: without the rules of fast_path.ts. */
  readonly isCarefulOnly?: boolean
  /** For tests, which cannot wait a minute for a silent peer. */
  readonly responseTimeoutMs?: number
  /** `haproxy` on the path when not given. */
  readonly binary?: string
}

export type RequestLines = 'all' | 'exceptions'

export const configFile = ({ folder }: ProxySettings): string => join(folder, 'haproxy.cfg')
export const policyFolder = ({ folder }: ProxySettings): string => join(folder, 'policies')
export const mapFolder = ({ folder }: ProxySettings): string => join(folder, 'maps')
export const mapFile = (settings: ProxySettings, map: MapName): string => join(mapFolder(settings), `${map}.map`)
/** Where the agent listens for what HAProxy tells it. */
export const lineSocket = ({ folder }: ProxySettings): string => join(folder, 'lines.sock')
/** What HAProxy's parser answers; see answers.ts. */
export const answerFolder = ({ folder }: ProxySettings): string => join(folder, 'answers')
/** Copies of the operator's usable certificates; see certificates.ts. */
export const loadedCertificateFolder = ({ folder }: ProxySettings): string => join(folder, 'certificates')
/** The list of them, which leaves out names that accounts ask for client certificates under. */
export const operatorList = ({ folder }: ProxySettings): string => join(folder, 'certificates.list')
/** Authorities of clients, by the hash of their PEM. */
export const authorityFolder = ({ folder }: ProxySettings): string => join(folder, 'authorities')

/** Certificates of accounts, and the list that says for which names; see tenant_certificates.ts. */
export const tenantFolder = ({ folder }: ProxySettings): string => join(folder, 'tenants')
export const tenantList = ({ folder }: ProxySettings): string => join(folder, 'tenants.list')

/** So that no source, edge or account can use up a node: docs/adr/0032. */
export const defaultShares = { perSource: 0.05, perEdge: 0.25, perAccount: 0.5 }
export const limitsOf = ({ limits, maxconn }: ProxySettings): Limits =>
  limits ?? {
    perSource: Math.ceil(defaultShares.perSource * maxconn),
    perEdge: Math.ceil(defaultShares.perEdge * maxconn),
    perAccount: Math.ceil(defaultShares.perAccount * maxconn),
    unlimitedSources: [],
  }
