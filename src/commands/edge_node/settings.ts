import { join } from 'node:path'
import type { ProxySettings } from '../../agent/haproxy/settings.ts'
import type { ControlPlaneHost } from '../../agent/upstreams/control_plane.ts'
import type { EdgeConfig } from '../../config/config.ts'
import type { Amount } from '../../config/values.ts'
import { natsHost } from '../../distribution/nats_connection.ts'
import { type TrustedKeys, trustedKeys } from '../../distribution/signature.ts'
import { ConfigError } from '../../kernel/config_error.ts'
import type { OwnPorts } from '../../kernel/ip/dial_policy.ts'

export function readTrustedKeys(
  config: EdgeConfig,
  setting: 'GATEHOUSE_EDGE_TRUSTED_KEYS' | 'GATEHOUSE_EDGE_EMERGENCY_KEYS',
): TrustedKeys {
  try {
    return trustedKeys(config[setting])
  } catch (error) {
    throw new ConfigError(`${setting} has ${(error as Error).message}`)
  }
}

/** The node's own listeners, which are not allowed as upstreams at any address of this machine. */
export function ownPorts(config: EdgeConfig): OwnPorts {
  const portOf = (at: string) => Number(at.slice(at.lastIndexOf(':') + 1))
  const web = [...config.GATEHOUSE_EDGE_HTTPS_LISTEN, ...config.GATEHOUSE_EDGE_HTTP_LISTEN].map(portOf)
  const single = [...web, config.GATEHOUSE_EDGE_STATUS_LISTEN.port]
  return [config.GATEHOUSE_TCP_PORTS, ...single.map((port) => ({ first: port, last: port }))]
}

/** NATS's ports for clients, other servers, leaf servers and monitoring, as in deploy/nats/nats.conf. */
const natsPorts = [4222, 6222, 7422, 8222]

/** Tenants have no reason to reach these hosts, and could bypass restrictions that trust the hosts' network. */
export const controlPlaneHosts = (config: EdgeConfig): ControlPlaneHost[] => [
  ...config.GATEHOUSE_NATS_URL.map(natsHost).map(({ host, port }) => ({ host, ports: [port, ...natsPorts] })),
  ...config.GATEHOUSE_EDGE_CONTROL_PLANE_HOSTS.map((host) => ({ host, ports: [] })),
]

export const usualProxyFolder = (config: Pick<EdgeConfig, 'GATEHOUSE_EDGE_FOLDER'>): string =>
  join(config.GATEHOUSE_EDGE_FOLDER, 'haproxy')
export const masterSocketIn = (folder: string): string => join(folder, 'master.sock')

export function proxySettings(config: EdgeConfig, folder = usualProxyFolder(config)): ProxySettings {
  const maxconn = config.GATEHOUSE_EDGE_MAX_CONNECTIONS
  const most = (amount: Amount) => ('count' in amount ? amount.count : Math.ceil((maxconn * amount.percent) / 100))
  return {
    folder,
    tcpBind: {
      addresses: config.GATEHOUSE_EDGE_TCP_ADDRESSES.map((address) => address.replace(/^\[|\]$/g, '')),
      ...config.GATEHOUSE_TCP_PORTS,
    },
    httpsBind: config.GATEHOUSE_EDGE_HTTPS_LISTEN,
    isHttp3On: config.GATEHOUSE_EDGE_HTTP3,
    httpBind: config.GATEHOUSE_EDGE_HTTP_LISTEN,
    proxyProtocolFrom: config.GATEHOUSE_EDGE_PROXY_PROTOCOL_FROM,
    trustedProxies: config.GATEHOUSE_EDGE_TRUSTED_PROXIES,
    certificateFolder: config.GATEHOUSE_EDGE_CERTIFICATES,
    runtimeSocket: join(folder, 'runtime.sock'),
    masterSocket: masterSocketIn(folder),
    requestLines: config.GATEHOUSE_EDGE_REQUEST_LINES,
    threads: config.GATEHOUSE_EDGE_THREADS,
    caFile: config.GATEHOUSE_EDGE_UPSTREAM_CA_FILE,
    maxconn,
    limits: {
      perSource: most(config.GATEHOUSE_EDGE_MAX_CONNECTIONS_PER_SOURCE),
      perEdge: most(config.GATEHOUSE_EDGE_MAX_CONNECTIONS_PER_EDGE),
      perAccount: most(config.GATEHOUSE_EDGE_MAX_CONNECTIONS_PER_ACCOUNT),
      unlimitedSources: config.GATEHOUSE_EDGE_UNLIMITED_SOURCES,
    },
  }
}
