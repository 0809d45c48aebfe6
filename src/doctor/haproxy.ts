import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { promisify } from 'node:util'
import { ask } from '../agent/haproxy/process/runtime.ts'
import { requireHaproxy } from '../agent/haproxy/process/version.ts'
import { configFile, type ProxySettings } from '../agent/haproxy/settings.ts'
import { answerTimeoutMs, type Finding, failed, ok } from './finding.ts'
import { portFault, portFinding, portsInUse } from './ports.ts'
import type { Service } from './services.ts'

export async function checkHaproxy(settings: ProxySettings, service?: Service): Promise<Finding[]> {
  return [
    ...(await checkProgram(settings)),
    ...(await checkPorts(settings, service)),
    await checkDescriptors(settings, service),
  ]
}

async function checkProgram({ isHttp3On }: ProxySettings): Promise<Finding[]> {
  try {
    const version = await requireHaproxy('haproxy', answerTimeoutMs)
    const { stdout } = await promisify(execFile)('haproxy', ['-vv'], { timeout: answerTimeoutMs })
    const missing = ['LUA', 'OPENSSL', ...(isHttp3On ? ['QUIC'] : [])].filter((name) => !stdout.includes(`+${name} `))
    return [
      ok('haproxy.version', version),
      missing.length === 0
        ? ok('haproxy.features', `built with Lua and TLS${isHttp3On ? ' and QUIC' : ''}`)
        : failed(
            'haproxy.features',
            `built without ${missing.join(' and ')}`,
            'Install a build with it: docs/guides/add-an-edge-node.md says where to get one',
          ),
    ]
  } catch (error) {
    const [message = '', ...hint] = (error as Error).message.split('. ')
    return [
      failed(
        'haproxy.version',
        message.trim(),
        hint.join('. ').replace(/\.$/, '') || 'docs/guides/add-an-edge-node.md says where to get it',
      ),
    ]
  }
}

/** The bind lines of this node's running HAProxy; empty if none runs. */
async function bindsOfRunning(settings: ProxySettings): Promise<string> {
  const isRunning = await ask(settings.runtimeSocket, 'show version').catch(() => '')
  const text = isRunning && (await readFile(configFile(settings), 'utf8').catch(() => ''))
  return text
    .split('\n')
    .filter((line) => line.startsWith('  bind '))
    .map((line) => `${line} `)
    .join('\n')
}

async function checkPorts(settings: ProxySettings, service: Service | undefined): Promise<Finding[]> {
  const running = await bindsOfRunning(settings)
  const isOurs = (at: string) => running.includes(`  bind ${at} `)
  const single = [
    ...settings.httpsBind.map((at) => ({ at, setting: 'GATEHOUSE_EDGE_HTTPS_LISTEN' })),
    ...(settings.httpBind ?? []).map((at) => ({ at, setting: 'GATEHOUSE_EDGE_HTTP_LISTEN' })),
  ]
  const check = 'haproxy.ports'
  const findings = await Promise.all(
    single.map(async ({ at, setting }) => {
      if (isOurs(at)) return ok(check, `${at} is held by this node's HAProxy`)
      const colon = at.lastIndexOf(':')
      const listen = { host: at.slice(0, colon).replace(/^\[|\]$/g, ''), port: Number(at.slice(colon + 1)) }
      return portFinding(check, setting, at, await portFault(listen), service)
    }),
  )
  return [...findings, await checkRange(check, settings, running.includes(`:${rangeOf(settings)} `))]
}

const rangeOf = ({ tcpBind: { first, last } }: ProxySettings): string => `${first}-${last}`

async function checkRange(check: string, settings: ProxySettings, isOurs: boolean): Promise<Finding> {
  const { first, last } = settings.tcpBind
  const range = rangeOf(settings)
  if (isOurs) return ok(check, `${range} for TCP edges are held by this node's HAProxy`)
  const taken = [...(await portsInUse())].filter((port) => port >= first && port <= last).sort((a, b) => a - b)
  return taken.length === 0
    ? ok(check, `${range} for TCP edges are free`)
    : failed(
        check,
        `another program listens on ${taken.slice(0, 5).join(', ')}${taken.length > 5 ? ' and more' : ''} of ${range} for TCP edges`,
        "Stop it, or change GATEHOUSE_TCP_PORTS here and on the control plane. 'ss -ltnp' says which program it is",
      )
}

/** Descriptors for HAProxy's own sockets, pipes and files. */
const spare = 200

async function checkDescriptors(
  { maxconn, tcpBind, httpsBind, httpBind = [] }: ProxySettings,
  service: Service | undefined,
): Promise<Finding> {
  const check = 'haproxy.descriptors'
  const ports = tcpBind.addresses.length * (tcpBind.last - tcpBind.first + 1) + httpsBind.length + httpBind.length
  const needed = 2 * maxconn + ports + spare
  const hard = service ? (service.descriptorLimit ?? Number.POSITIVE_INFINITY) : await limitOfShell()
  const where = service ? `of ${service.unit}` : 'here'
  const need = `HAProxy needs ${needed} for ${maxconn} connections and ${ports} listening ports`
  return hard >= needed
    ? ok(check, `${need}; the limit ${where} is ${hard}`)
    : failed(
        check,
        `${need}, and the limit ${where} is ${hard}`,
        `Set LimitNOFILE=${needed} in the unit, or lower GATEHOUSE_EDGE_MAX_CONNECTIONS or narrow GATEHOUSE_TCP_PORTS`,
      )
}

async function limitOfShell(): Promise<number> {
  const limits = await readFile('/proc/self/limits', 'utf8').catch(() => '')
  return Number(/^Max open files +\S+ +(\d+)/m.exec(limits)?.[1] ?? Number.POSITIVE_INFINITY)
}
