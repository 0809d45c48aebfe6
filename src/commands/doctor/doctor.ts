import { type Config, type EdgeConfig, edgeSettings, readConfig, readEdgeConfig, settings } from '../../config.ts'
import { proxySettings } from '../edge_node/settings.ts'
import { checkDns } from './dns.ts'
import { checkEdgeFiles } from './edge_files.ts'
import { bounded, type Finding, failed, ok } from './finding.ts'
import { checkHaproxy } from './haproxy.ts'
import { checkNats } from './nats.ts'
import { checkOwnPort } from './ports.ts'
import { checkPostgres } from './postgres.ts'
import { checkSecretsKey } from './secrets.ts'
import { checkNames, checkSecretFiles, checkSettings, rolesIn } from './settings.ts'
import { checkStartSettings } from './start_settings.ts'
import { checkUpstreams } from './upstreams.ts'

export const doctorOutputs = ['text', 'json'] as const
type Output = (typeof doctorOutputs)[number]

/** Checks what `serve` or `edge` would meet with this environment. Changes nothing. */
export async function doctor(environment: NodeJS.ProcessEnv, output: Output): Promise<number> {
  const findings = await examine(environment)
  console.log(output === 'json' ? asJson(findings) : asText(findings))
  return findings.some(({ status }) => status === 'failed') ? 1 : 0
}

async function examine(environment: NodeJS.ProcessEnv): Promise<Finding[]> {
  const { controlPlane, edge } = rolesIn(environment)
  const node = ok('node.version', `${process.versions.node} (${process.execPath})`)
  if (!controlPlane && !edge) return [node, nothingSet]
  const areas = [
    ...(controlPlane ? ofControlPlane(environment) : []),
    ...(edge ? ofEdge(environment) : []),
    Promise.resolve(checkNames(environment)),
  ]
  return [node, ...(await Promise.all(areas)).flat()]
}

const nothingSet = failed(
  'settings',
  'there are neither settings of a control plane nor of an edge node in the environment',
  "Set GATEHOUSE_DATABASE_URL or GATEHOUSE_EDGE_NODE, or name the file of the service: 'gatehouse doctor --env-file /etc/gatehouse/gatehouse.env'",
)

/** With a wrong setting there is nothing to connect to, so the other checks wait for it to be corrected. */
const isUsable = (findings: Finding[]) => findings.every(({ status }) => status !== 'failed')

function ofControlPlane(environment: NodeJS.ProcessEnv): Promise<Finding[]>[] {
  const read = checkSettings(settings, environment)
  const first = Promise.resolve([...read, ...checkSecretFiles(settings, environment)])
  if (!isUsable(read)) return [first]
  const config = readConfig(environment)
  return [
    first,
    bounded('settings.files', checkStartSettings(config)),
    bounded('listen.port', checkListen(config)),
    bounded('postgresql', checkPostgres(config)),
    bounded('secrets', Promise.resolve(checkSecretsKey(config))),
    config.GATEHOUSE_NATS_URL.length === 0
      ? Promise.resolve([ok('nats.server', 'GATEHOUSE_NATS_URL is not set: this installation has no edges')])
      : bounded('nats', checkNats({ ...natsClient(config), replicas: config.GATEHOUSE_NATS_REPLICAS })),
    bounded('dns.servers', checkDns('GATEHOUSE_DNS_SERVERS', config.GATEHOUSE_DNS_SERVERS)),
  ]
}

const checkListen = async (config: Config): Promise<Finding[]> => [
  await checkOwnPort('listen.port', 'GATEHOUSE_LISTEN', config.GATEHOUSE_LISTEN, {
    path: '/metrics',
    mark: 'gatehouse_build_info',
    name: "'gatehouse serve'",
  }),
]

function ofEdge(environment: NodeJS.ProcessEnv): Promise<Finding[]>[] {
  const read = checkSettings(edgeSettings, environment)
  const first = Promise.resolve([...read, ...checkSecretFiles(edgeSettings, environment)])
  if (!isUsable(read)) return [first]
  const config = readEdgeConfig(environment)
  return [
    first,
    bounded('edge', checkEdgeFiles(config)),
    bounded('haproxy', checkHaproxy(proxySettings(config))),
    bounded('edge.status_port', checkStatusPort(config)),
    bounded('edge.upstreams', checkUpstreams(config)),
    config.GATEHOUSE_NATS_URL.length === 0
      ? Promise.resolve([
          failed(
            'nats.server',
            'GATEHOUSE_NATS_URL is not set',
            'Set it: an edge node receives its records through NATS',
          ),
        ])
      : bounded('nats', checkNats({ ...natsClient(config), node: config.GATEHOUSE_EDGE_NODE })),
    bounded('dns.servers', checkDns('GATEHOUSE_EDGE_DNS_SERVERS', config.GATEHOUSE_EDGE_DNS_SERVERS)),
  ]
}

const checkStatusPort = async (config: EdgeConfig): Promise<Finding[]> => [
  await checkOwnPort('edge.status_port', 'GATEHOUSE_EDGE_STATUS_LISTEN', config.GATEHOUSE_EDGE_STATUS_LISTEN, {
    path: '/status',
    mark: `"node":"${config.GATEHOUSE_EDGE_NODE}"`,
    name: `'gatehouse edge' of ${config.GATEHOUSE_EDGE_NODE}`,
  }),
]

const natsClient = (config: Config | EdgeConfig) => ({
  servers: config.GATEHOUSE_NATS_URL,
  caFile: config.GATEHOUSE_NATS_CA_FILE,
  user: config.GATEHOUSE_NATS_USER,
  password: config.GATEHOUSE_NATS_PASSWORD,
})

const count = (findings: Finding[], wanted: Finding['status']) =>
  findings.filter(({ status }) => status === wanted).length

function asText(findings: Finding[]): string {
  const width = Math.max(...findings.map(({ check }) => check.length))
  const lines = findings.map(({ check, status, message, hint }) =>
    `${status.padEnd(7)}  ${check.padEnd(width)}  ${message}${hint && `. ${hint}.`}`.replace(/([.?])\.$/, '$1'),
  )
  const [good, warnings, faults] = (['ok', 'warning', 'failed'] as const).map((status) => count(findings, status))
  return [...lines, '', `${good} ok, ${warnings} ${warnings === 1 ? 'warning' : 'warnings'}, ${faults} failed`].join(
    '\n',
  )
}

const asJson = (findings: Finding[]): string =>
  JSON.stringify({ status: count(findings, 'failed') === 0 ? 'ok' : 'failed', checks: findings }, null, 2)
