import { runningProxyFolder } from '../commands/edge_node/proxy_folder.ts'
import { proxySettings } from '../commands/edge_node/settings.ts'
import { type EdgeConfig, readEdgeConfig } from '../config/config.ts'
import { edgeSettings } from '../config/edge.ts'
import { channelsOf } from '../distribution/channels.ts'
import { checkDns } from './dns.ts'
import { checkEdgeFiles } from './edge_files.ts'
import { bounded, type Finding, failed, isUsable } from './finding.ts'
import { checkHaproxy } from './haproxy.ts'
import { checkNats, natsClient } from './nats.ts'
import { nodeCredentials } from './nats_credentials.ts'
import { checkOwnPort } from './ports.ts'
import { checkServedNames } from './served_names.ts'
import type { Service } from './services.ts'
import { checkSecretFiles, checkSettings } from './settings.ts'
import { checkUpstreams } from './upstreams.ts'

export function checkEdge(environment: NodeJS.ProcessEnv, service?: Service): Promise<Finding[]>[] {
  const read = checkSettings(edgeSettings, environment)
  const first = Promise.resolve([...read, ...checkSecretFiles(edgeSettings, environment)])
  if (!isUsable(read)) return [first]
  const config = readEdgeConfig(environment)
  return [
    first,
    bounded('edge', checkEdgeFiles(config, service?.account)),
    bounded('haproxy', checkProxy(config, service)),
    bounded('edge.status_port', checkStatusPort(config, service)),
    bounded('certificates.served_names', checkServedNames(config)),
    bounded('edge.upstreams', checkUpstreams(config)),
    config.GATEHOUSE_NATS_URL.length === 0
      ? Promise.resolve([
          failed(
            'nats.server',
            'GATEHOUSE_NATS_URL is not set',
            'Set it: an edge node receives its records through NATS',
          ),
        ])
      : bounded(
          'nats',
          checkNats({
            ...natsClient(config),
            node: config.GATEHOUSE_EDGE_NODE,
            channels: channelsOf(config.GATEHOUSE_EDGE_CELL, config.GATEHOUSE_EDGE_WAVE),
            credentials: nodeCredentials(config),
          }),
        ),
    bounded('dns.servers', checkDns('GATEHOUSE_EDGE_DNS_SERVERS', config.GATEHOUSE_EDGE_DNS_SERVERS)),
  ]
}

const checkProxy = async (config: EdgeConfig, service: Service | undefined): Promise<Finding[]> =>
  checkHaproxy(proxySettings(config, await runningProxyFolder(config)), service)

const checkStatusPort = (config: EdgeConfig, service: Service | undefined): Promise<Finding[]> =>
  checkOwnPort(
    'edge.status_port',
    'GATEHOUSE_EDGE_STATUS_LISTEN',
    config.GATEHOUSE_EDGE_STATUS_LISTEN,
    {
      path: '/status',
      mark: `"node":"${config.GATEHOUSE_EDGE_NODE}"`,
      name: `'gatehouse edge' of ${config.GATEHOUSE_EDGE_NODE}`,
    },
    service,
  )
