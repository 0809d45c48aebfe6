import { readFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { isAbsolute, join } from 'node:path'
import {
  amount,
  ConfigError,
  cidrList,
  databaseUrl,
  dnsServers,
  domains,
  fullOrTruncated,
  keepOrClose,
  list,
  listenAddress,
  logDestinations,
  logLevel,
  logLevels,
  networks,
  nodeName,
  onOrOff,
  percentage,
  portRange,
  publicUrl,
  requestLines,
  roleName,
  text,
  wholeNumber,
} from './kernel/setting_values.ts'
import { type Setting, setting } from './setting.ts'
import { version } from './version.ts'
import { webhookSettings } from './webhook_settings.ts'

/** NATS settings, shared by the control plane and edge nodes. */
const natsSettings = {
  GATEHOUSE_NATS_URL: setting({
    default: '',
    help: 'NATS servers, comma-separated, such as tls://nats-1:4222. If any of them uses tls://, TLS is required for all. Empty: no edges.',
    parse: list,
  }),
  GATEHOUSE_NATS_CA_FILE: setting({
    default: '',
    help: 'PEM file of the CA that signed the certificates of NATS. Setting it makes TLS required. Empty: the CAs that Node.js trusts.',
    parse: text,
  }),
  GATEHOUSE_NATS_USER: setting({ default: '', help: 'NATS user name.', parse: text }),
  GATEHOUSE_NATS_PASSWORD: setting({ default: '', help: 'NATS password.', secret: true, parse: text }),
}

export const settings = {
  GATEHOUSE_DATABASE_URL: setting({
    help: 'PostgreSQL connection URL, as postgres://user:password@host:port/database.',
    secret: true,
    parse: databaseUrl,
  }),
  GATEHOUSE_DATABASE_APP_ROLE: setting({
    default: '',
    help: "Least-privileged role for 'gatehouse serve', which 'gatehouse migrate' grants its rights. Empty: serve runs as the owner of the tables.",
    parse: roleName,
  }),
  GATEHOUSE_DATABASE_POOL_SIZE: setting({
    default: '10',
    help: 'PostgreSQL connections per process, beside two that look-ups share.',
    parse: wholeNumber(2, 500),
  }),
  GATEHOUSE_DATABASE_TIMEOUT_MS: setting({
    default: '5000',
    help: 'How long a request waits for a connection, and how long a statement may run.',
    parse: wholeNumber(100, 600_000),
  }),
  GATEHOUSE_HEAVY_OPERATIONS: setting({
    default: '2',
    help: 'Rule sets, and as many reports, that one process handles concurrently. Keep it within a quarter of the pool.',
    parse: wholeNumber(1, 100),
  }),
  GATEHOUSE_REQUESTS_PER_MINUTE: setting({
    default: '6000',
    help: "Requests that one API key may make per minute, through each process. 0: no limit. 'gatehouse rate-limits' changes it for an account.",
    parse: wholeNumber(0, 1_000_000),
  }),
  GATEHOUSE_FAILED_REQUESTS_PER_MINUTE: setting({
    default: '60',
    help: 'Requests with a wrong token that one source address (IPv6: /64) may make per minute, through each process, before they get 429 instead of 401. 0: no limit.',
    parse: wholeNumber(0, 1_000_000),
  }),
  GATEHOUSE_LISTEN: setting({
    default: '127.0.0.1:8080',
    help: 'Address and port of the API, as address:port.',
    parse: listenAddress,
  }),
  GATEHOUSE_PUBLIC_URL: setting({
    default: 'http://127.0.0.1:8080',
    help: 'URL at which clients reach the service. Every uri begins with it.',
    parse: publicUrl,
  }),
  GATEHOUSE_TRUSTED_PROXIES: setting({
    default: '',
    help: 'Addresses and CIDR ranges, comma-separated, whose X-Forwarded-For header is trusted. All others are ignored.',
    parse: networks,
  }),
  GATEHOUSE_DASHBOARD: setting({
    default: 'on',
    help: 'Whether to serve the dashboard and allow signing in to it: on or off.',
    parse: onOrOff,
  }),
  GATEHOUSE_OIDC_FILE: setting({
    default: '',
    help: 'File with the OpenID Connect providers that people sign in with, YAML or JSON; see docs/sign-in.md. Empty: none.',
    parse: text,
  }),
  GATEHOUSE_TOKEN_SIGN_IN: setting({
    default: 'on',
    help: 'Whether the token of an API key signs in to the dashboard: on or off.',
    parse: onOrOff,
  }),
  GATEHOUSE_LOGIN_HOURS: setting({
    default: '12',
    help: "How many hours the API key of 'gatehouse login' is valid.",
    parse: wholeNumber(1, 720),
  }),
  GATEHOUSE_DOCS: setting({
    default: 'on',
    help: 'Whether to serve the API reference under /docs/, /openapi.json and /llms.txt: on or off.',
    parse: onOrOff,
  }),
  GATEHOUSE_VERSION_HEADER_ALIASES: setting({
    default: '',
    help: 'Additional headers accepted as Service-Version, comma-separated, such as Ngrok-Version.',
    parse: (value) => list(value.toLowerCase()),
  }),
  GATEHOUSE_TCP_PORTS: setting({
    default: '20000-29999',
    help: 'Port range for TCP edges, as first-last.',
    parse: portRange,
  }),
  GATEHOUSE_TCP_PORTS_PER_ACCOUNT: setting({
    default: '1000',
    help: 'Maximum number of these ports per account.',
    parse: wholeNumber(1, 65_535),
  }),
  GATEHOUSE_WILDCARD_SUFFIXES: setting({
    default: '',
    help: 'Public suffixes, comma-separated, directly under which wildcard hostports are allowed. Use it for your own domains that are on the Public Suffix List.',
    parse: domains,
  }),
  ...natsSettings,
  GATEHOUSE_NATS_REPLICAS: setting({
    default: '1',
    help: 'Replicas of the records in NATS. Use 3 with three servers.',
    parse: wholeNumber(1, 5),
  }),
  GATEHOUSE_REQUEST_TIMEOUT_MS: setting({
    default: '30000',
    help: 'How long a request may take to arrive in full.',
    parse: wholeNumber(100, 3_600_000),
  }),
  GATEHOUSE_SHUTDOWN_GRACE_MS: setting({
    default: '25000',
    help: 'How long requests in flight may take to finish after SIGTERM.',
    parse: wholeNumber(0, 3_600_000),
  }),
  GATEHOUSE_AUDIT_RETENTION_MONTHS: setting({
    default: '13',
    help: 'Months of audit events to keep. 0 keeps all.',
    parse: wholeNumber(0, 1_200),
  }),
  ...webhookSettings,
  GATEHOUSE_ADDRESS_RETENTION_DAYS: setting({
    default: '30',
    help: 'Days to keep source addresses of refused requests, warnings and API key use.',
    parse: wholeNumber(1, 3_650),
  }),
  GATEHOUSE_REQUEST_RETENTION_DAYS: setting({
    default: '7',
    help: 'Days to keep requests that edge nodes refused, warned about, limited or failed.',
    parse: wholeNumber(1, 365),
  }),
  GATEHOUSE_REQUESTS_KEPT_PER_HOUR: setting({
    default: '1000',
    help: 'Such requests that are kept per hour for each account and edge node. The rest are only counted.',
    parse: wholeNumber(0, 1_000_000),
  }),
  GATEHOUSE_POLICY_CACHE_MB: setting({
    default: '256',
    help: 'Memory per process for compiled IP policies.',
    parse: wholeNumber(1, 65_536),
  }),
  GATEHOUSE_LOG_LEVEL: setting({ default: 'info', help: `One of ${logLevels.join(', ')}.`, parse: logLevel }),
}

/** Settings of `gatehouse edge`. */
export const edgeSettings = {
  GATEHOUSE_EDGE_NODE: setting({
    help: 'Name of this node: lowercase letters, digits and hyphens. NATS lets the node report only under this name.',
    parse: nodeName,
  }),
  GATEHOUSE_EDGE_TRUSTED_KEYS: setting({
    help: "Public keys, comma-separated, whose signatures on records are trusted. 'gatehouse signing-keys list' prints them.",
    parse: list,
  }),
  GATEHOUSE_EDGE_FOLDER: setting({
    default: '/var/lib/gatehouse-edge',
    help: "Directory for the node's state and HAProxy's files.",
    parse: text,
  }),
  GATEHOUSE_EDGE_TCP_ADDRESSES: setting({
    default: '0.0.0.0,[::]',
    help: 'Addresses that TCP edges listen on, comma-separated.',
    parse: list,
  }),
  GATEHOUSE_TCP_PORTS: setting({
    default: '20000-29999',
    help: 'Port range for TCP edges, as first-last.',
    parse: portRange,
  }),
  GATEHOUSE_EDGE_HTTPS_LISTEN: setting({
    default: '0.0.0.0:443,[::]:443',
    help: 'Addresses and ports that HTTPS edges listen on, comma-separated.',
    parse: list,
  }),
  GATEHOUSE_EDGE_HTTP3: setting({
    default: 'off',
    help: 'Whether HTTPS edges also speak HTTP/3, over UDP on the same addresses and ports: on or off.',
    parse: onOrOff,
  }),
  GATEHOUSE_EDGE_HTTP_LISTEN: setting({
    default: '',
    help: 'Addresses and ports, comma-separated, where plain HTTP is redirected to HTTPS, such as 0.0.0.0:80,[::]:80. Empty: none.',
    parse: list,
  }),
  GATEHOUSE_EDGE_PROXY_PROTOCOL_FROM: setting({
    default: '',
    help: 'Addresses and CIDR ranges, comma-separated, of load balancers that send the PROXY protocol. Their connections are refused without it.',
    parse: cidrList,
  }),
  GATEHOUSE_EDGE_TRUSTED_PROXIES: setting({
    default: '',
    help: 'Addresses and CIDR ranges, comma-separated, whose X-Forwarded-For header names the client of an HTTPS request. All others are ignored.',
    parse: cidrList,
  }),
  GATEHOUSE_EDGE_CERTIFICATES: setting({
    default: '/etc/gatehouse-edge/certificates',
    help: 'Directory of PEM files, each with certificate, chain and key. New files are picked up automatically.',
    parse: text,
  }),
  GATEHOUSE_EDGE_UPSTREAM_CA_FILE: setting({
    default: '/etc/ssl/certs/ca-certificates.crt',
    help: 'PEM file of the CAs that may sign upstream certificates.',
    parse: text,
  }),
  GATEHOUSE_EDGE_UPSTREAM_DENY: setting({
    default: '',
    help: 'Networks, comma-separated, that upstreams must not be in. Takes precedence over the allowed networks.',
    parse: networks,
  }),
  GATEHOUSE_EDGE_UPSTREAM_ALLOW: setting({
    default: '',
    help: "Networks, comma-separated, that upstreams may be in although they are denied by default, such as 127.0.0.0/8. The node's own listeners stay denied.",
    parse: networks,
  }),
  GATEHOUSE_EDGE_DNS_SERVERS: setting({
    default: '',
    help: 'DNS servers for upstream names, comma-separated, as address or address:port. Empty: those of the system.',
    parse: dnsServers,
  }),
  GATEHOUSE_EDGE_OPEN_CONNECTIONS: setting({
    default: 'keep',
    help: 'What to do with open TCP connections and WebSockets when the restrictions that apply to them change: keep or close.',
    parse: keepOrClose,
  }),
  GATEHOUSE_EDGE_DRAIN_DELAY_SECONDS: setting({
    default: '10',
    help: 'How long the node keeps accepting connections after SIGTERM, while reporting that it is not ready.',
    parse: wholeNumber(0, 3_600),
  }),
  GATEHOUSE_EDGE_DRAIN_DEADLINE_SECONDS: setting({
    default: '30',
    help: 'How long open requests and connections may take to finish after that.',
    parse: wholeNumber(0, 86_400),
  }),
  GATEHOUSE_EDGE_STATUS_LISTEN: setting({
    default: '127.0.0.1:9180',
    help: "Address and port of the node's status server, as address:port.",
    parse: listenAddress,
  }),
  GATEHOUSE_EDGE_REQUEST_LINES: setting({
    default: 'all',
    help: 'Which requests and connections HAProxy tells the agent about: all, or exceptions (refused, warned, limited and failed ones only, which costs less; nothing else is then logged, counted or shown).',
    parse: requestLines,
  }),
  GATEHOUSE_EDGE_ACCESS_LOG: setting({
    default: '',
    help: 'Where the access log goes, comma-separated: stdout, the absolute path of a file, syslog+udp://host:port, syslog+tcp://host:port, or the URL of an OTLP/HTTP logs endpoint. Empty: nowhere.',
    parse: logDestinations,
  }),
  GATEHOUSE_EDGE_ACCESS_LOG_SAMPLE: setting({
    default: '100%',
    help: 'Share of allowed requests and connections in the access log. Refused, warned, limited and failed ones are always in it.',
    parse: percentage,
  }),
  GATEHOUSE_EDGE_ACCESS_LOG_ADDRESSES: setting({
    default: 'full',
    help: 'Client addresses in the access log: full, or truncated to /24 (IPv6: /48).',
    parse: fullOrTruncated,
  }),
  GATEHOUSE_EDGE_ACCESS_LOG_MAX_MB: setting({
    default: '100',
    help: 'Size at which the file of the access log is renamed and a new one begun.',
    parse: wholeNumber(1, 100_000),
  }),
  GATEHOUSE_EDGE_ACCESS_LOG_FILES: setting({
    default: '5',
    help: 'How many files of the access log to keep, with the present one.',
    parse: wholeNumber(1, 1_000),
  }),
  GATEHOUSE_EDGE_THREADS: setting({ default: '2', help: 'HAProxy threads.', parse: wholeNumber(1, 64) }),
  GATEHOUSE_EDGE_MAX_CONNECTIONS: setting({
    default: '20000',
    help: 'Maximum concurrent HAProxy connections.',
    parse: wholeNumber(100, 1_000_000),
  }),
  GATEHOUSE_EDGE_MAX_CONNECTIONS_PER_SOURCE: setting({
    default: '5%',
    help: 'Maximum connections, and requests in flight, per source address (IPv6: per /64): a number, or a percentage of the maximum above.',
    parse: amount,
  }),
  GATEHOUSE_EDGE_MAX_CONNECTIONS_PER_EDGE: setting({
    default: '25%',
    help: 'Maximum TCP connections or requests in flight per edge: a number, or a percentage.',
    parse: amount,
  }),
  GATEHOUSE_EDGE_MAX_CONNECTIONS_PER_ACCOUNT: setting({
    default: '50%',
    help: 'Maximum TCP connections and requests in flight per account: a number, or a percentage.',
    parse: amount,
  }),
  GATEHOUSE_EDGE_UNLIMITED_SOURCES: setting({
    default: '',
    help: 'Addresses and CIDR ranges, comma-separated, exempt from the limit per source address, such as load balancers.',
    parse: cidrList,
  }),
  ...natsSettings,
  GATEHOUSE_LOG_LEVEL: setting({ default: 'info', help: `One of ${logLevels.join(', ')}.`, parse: logLevel }),
}

/** Settings of `gatehouse` as an API client. Empty: taken from a profile. */
export const clientSettings = {
  GATEHOUSE_URL: setting({
    default: '',
    help: 'URL of the API, such as https://gatehouse.example.com.',
    parse: (value) => (value === '' ? '' : publicUrl(value)),
  }),
  GATEHOUSE_API_KEY: setting({ default: '', help: 'Token of an API key.', secret: true, parse: text }),
  GATEHOUSE_PROFILE: setting({ default: '', help: 'Profile to use when these two are not set.', parse: text }),
}

type Values<Settings extends Record<string, Setting<unknown>>> = {
  readonly [Name in keyof Settings]: ReturnType<Settings[Name]['parse']>
}
export type Config = Values<typeof settings>
export type EdgeConfig = Values<typeof edgeSettings>

export const readConfig = (environment: NodeJS.ProcessEnv = process.env): Config => readSettings(settings, environment)
export const readEdgeConfig = (environment: NodeJS.ProcessEnv = process.env): EdgeConfig =>
  readSettings(edgeSettings, environment)

/** `gatehouse edge status` needs only the address of the status server. */
export const readEdgeStatusConfig = (environment: NodeJS.ProcessEnv = process.env) =>
  readSettings({ GATEHOUSE_EDGE_STATUS_LISTEN: edgeSettings.GATEHOUSE_EDGE_STATUS_LISTEN }, environment)

/** Includes the path of the profiles. Per the XDG base directory specification, a relative path is ignored. */
export function readClientConfig(environment: NodeJS.ProcessEnv = process.env) {
  const { XDG_CONFIG_HOME = '' } = environment
  const folder = isAbsolute(XDG_CONFIG_HOME) ? XDG_CONFIG_HOME : join(homedir(), '.config')
  const { SSH_CONNECTION, DISPLAY, WAYLAND_DISPLAY } = environment
  return {
    ...readSettings(clientSettings, environment),
    profilesFile: join(folder, 'gatehouse', 'profiles.json'),
    version,
    hasScreen: !SSH_CONNECTION && (process.platform !== 'linux' || Boolean(DISPLAY || WAYLAND_DISPLAY)),
  }
}

/**
 * Reads every setting once. A secret may also be given as NAME_FILE, the path of a file that contains it. An empty
 * variable counts as unset: given an empty URL, the driver would connect to a default database.
 */
function readSettings<Settings extends Record<string, Setting<unknown>>>(
  known: Settings,
  environment: NodeJS.ProcessEnv,
): Values<Settings> {
  const entries = Object.entries(known).map(([name, { parse, secret, help, default: fallback }]) => {
    const file = (secret && environment[`${name}_FILE`]) || undefined
    const value = environment[name] || (file && readSecret(name, file)) || fallback
    if (value === undefined) throw new ConfigError(`${name} is not set: ${help}`)
    try {
      return [name, parse(value)]
    } catch (error) {
      if (error instanceof ConfigError) throw new ConfigError(`${name} ${error.message}`)
      throw error
    }
  })
  return Object.freeze(Object.fromEntries(entries)) as Values<Settings>
}

function readSecret(name: string, file: string): string {
  try {
    return readFileSync(file, 'utf8').trimEnd()
  } catch (cause) {
    throw new ConfigError(`${name}_FILE is ${file}, which cannot be read`, { cause })
  }
}

export function settingsHelp(known: Record<string, Setting<unknown>> = settings): string {
  return Object.entries(known)
    .map(([name, { help, secret, default: fallback }]) => {
      const value = fallback === undefined ? 'required' : fallback === '' ? 'empty by default' : `default ${fallback}`
      return `  ${name}${secret ? ` (or ${name}_FILE)` : ''}\n      ${help} (${value})`
    })
    .join('\n')
}
