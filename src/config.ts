import { readFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { isAbsolute, join } from 'node:path'
import {
  amount,
  ConfigError,
  cidrList,
  dnsServers,
  domains,
  keepOrClose,
  list,
  listenAddress,
  logLevel,
  logLevels,
  networks,
  nodeName,
  onOrOff,
  portRange,
  publicUrl,
  roleName,
  text,
  wholeNumber,
} from './kernel/setting_values.ts'

type Setting<Value> = {
  /** Shown by --help, and the value when the variable is not set. Undefined: it must be set. */
  default?: string
  help: string
  secret?: boolean
  parse: (text: string) => Value
}
const setting = <Value>(definition: Setting<Value>): Setting<Value> => definition

/** What NATS needs, on either side. */
const natsSettings = {
  GATEHOUSE_NATS_URL: setting({
    default: '',
    help: 'NATS servers, comma-separated, such as tls://nats-1:4222. With tls:// in one of them, TLS is required of all. Empty: no edges.',
    parse: list,
  }),
  GATEHOUSE_NATS_CA_FILE: setting({
    default: '',
    help: 'PEM file of the authority that signed the certificates of NATS. TLS is then required. Empty: the authorities that Node trusts.',
    parse: text,
  }),
  GATEHOUSE_NATS_USER: setting({ default: '', help: 'User name at NATS.', parse: text }),
  GATEHOUSE_NATS_PASSWORD: setting({ default: '', help: 'Password at NATS.', secret: true, parse: text }),
}

export const settings = {
  GATEHOUSE_DATABASE_URL: setting({
    help: 'PostgreSQL, as postgres://user:password@host:port/database.',
    secret: true,
    parse: text,
  }),
  GATEHOUSE_DATABASE_APP_ROLE: setting({
    default: '',
    help: "The role that 'gatehouse migrate' lets serve with least privilege. Empty: serve runs as the owner of the tables.",
    parse: roleName,
  }),
  GATEHOUSE_DATABASE_POOL_SIZE: setting({
    default: '10',
    help: 'Connections to PostgreSQL of one process.',
    parse: wholeNumber(2, 500),
  }),
  GATEHOUSE_DATABASE_TIMEOUT_MS: setting({
    default: '5000',
    help: 'How long a request waits for a connection, and a statement may run.',
    parse: wholeNumber(100, 600_000),
  }),
  GATEHOUSE_HEAVY_OPERATIONS: setting({
    default: '2',
    help: 'Rule sets, and as many reports, that one process works on at once. At most a quarter of the pool is advisable.',
    parse: wholeNumber(1, 100),
  }),
  GATEHOUSE_LISTEN: setting({
    default: '127.0.0.1:8080',
    help: 'Where to serve the API, as address:port.',
    parse: listenAddress,
  }),
  GATEHOUSE_PUBLIC_URL: setting({
    default: 'http://127.0.0.1:8080',
    help: 'What clients call this service: every uri begins with it.',
    parse: publicUrl,
  }),
  GATEHOUSE_TRUSTED_PROXIES: setting({
    default: '',
    help: 'Addresses and CIDR ranges, comma-separated, whose X-Forwarded-For is believed. Nobody else is.',
    parse: networks,
  }),
  GATEHOUSE_DASHBOARD: setting({
    default: 'on',
    help: 'Whether the dashboard is served and people can sign in to it: on or off.',
    parse: onOrOff,
  }),
  GATEHOUSE_DOCS: setting({
    default: 'on',
    help: 'Whether the description of the API is served, under /docs/, /openapi.json and /llms.txt: on or off.',
    parse: onOrOff,
  }),
  GATEHOUSE_VERSION_HEADER_ALIASES: setting({
    default: '',
    help: 'Further headers that count as Service-Version, comma-separated, such as Ngrok-Version.',
    parse: (value) => list(value.toLowerCase()),
  }),
  GATEHOUSE_TCP_PORTS: setting({
    default: '20000-29999',
    help: 'The ports that TCP edges may use, as first-last.',
    parse: portRange,
  }),
  GATEHOUSE_TCP_PORTS_PER_ACCOUNT: setting({
    default: '1000',
    help: 'How many of these ports one account may have.',
    parse: wholeNumber(1, 65_535),
  }),
  GATEHOUSE_WILDCARD_SUFFIXES: setting({
    default: '',
    help: 'Public suffixes under which wildcard hostports are allowed all the same, comma-separated: domains of your own that the Public Suffix List has.',
    parse: domains,
  }),
  ...natsSettings,
  GATEHOUSE_NATS_REPLICAS: setting({
    default: '1',
    help: 'Copies of the records in NATS: 3 with three servers.',
    parse: wholeNumber(1, 5),
  }),
  GATEHOUSE_REQUEST_TIMEOUT_MS: setting({
    default: '30000',
    help: 'How long a request may take to arrive.',
    parse: wholeNumber(100, 3_600_000),
  }),
  GATEHOUSE_SHUTDOWN_GRACE_MS: setting({
    default: '25000',
    help: 'How long what is in flight may take to finish after SIGTERM.',
    parse: wholeNumber(0, 3_600_000),
  }),
  GATEHOUSE_AUDIT_RETENTION_MONTHS: setting({
    default: '13',
    help: 'Whole months of audit events to keep; 0 keeps all.',
    parse: wholeNumber(0, 1_200),
  }),
  GATEHOUSE_ADDRESS_RETENTION_DAYS: setting({
    default: '30',
    help: 'Days to keep source addresses of refused and warned requests and of uses of keys.',
    parse: wholeNumber(1, 3_650),
  }),
  GATEHOUSE_POLICY_CACHE_MB: setting({
    default: '256',
    help: 'Memory of one process for compiled IP policies.',
    parse: wholeNumber(1, 65_536),
  }),
  GATEHOUSE_LOG_LEVEL: setting({ default: 'info', help: `One of ${logLevels.join(', ')}.`, parse: logLevel }),
}

/** What `gatehouse edge` reads. */
export const edgeSettings = {
  GATEHOUSE_EDGE_NODE: setting({
    help: 'The name of this node: small letters, digits and hyphens. NATS lets it report under this name only.',
    parse: nodeName,
  }),
  GATEHOUSE_EDGE_TRUSTED_KEYS: setting({
    help: "The public keys, comma-separated, whose records are believed. 'gatehouse signing-keys list' prints them.",
    parse: list,
  }),
  GATEHOUSE_EDGE_FOLDER: setting({
    default: '/var/lib/gatehouse-edge',
    help: 'Where the node keeps what it knows, and the files of HAProxy.',
    parse: text,
  }),
  GATEHOUSE_EDGE_TCP_ADDRESSES: setting({
    default: '0.0.0.0,[::]',
    help: 'Addresses on which TCP edges listen, comma-separated.',
    parse: list,
  }),
  GATEHOUSE_TCP_PORTS: setting({
    default: '20000-29999',
    help: 'The ports that TCP edges may use, as first-last.',
    parse: portRange,
  }),
  GATEHOUSE_EDGE_HTTPS_LISTEN: setting({
    default: '0.0.0.0:443,[::]:443',
    help: 'Where HTTPS edges listen, comma-separated.',
    parse: list,
  }),
  GATEHOUSE_EDGE_CERTIFICATES: setting({
    default: '/etc/gatehouse-edge/certificates',
    help: 'A folder of PEM files with certificate, chain and key. New ones are picked up by themselves.',
    parse: text,
  }),
  GATEHOUSE_EDGE_UPSTREAM_CA_FILE: setting({
    default: '/etc/ssl/certs/ca-certificates.crt',
    help: "PEM file of the authorities that upstreams' certificates must be signed by.",
    parse: text,
  }),
  GATEHOUSE_EDGE_UPSTREAM_DENY: setting({
    default: '',
    help: 'Networks, comma-separated, that no upstream may be in. They count before those that are allowed.',
    parse: networks,
  }),
  GATEHOUSE_EDGE_UPSTREAM_ALLOW: setting({
    default: '',
    help: "Networks, comma-separated, in which upstreams may be although they are denied by default, such as 127.0.0.0/8. Never the node's own listeners.",
    parse: networks,
  }),
  GATEHOUSE_EDGE_DNS_SERVERS: setting({
    default: '',
    help: "DNS servers for the names of upstreams, comma-separated, as address or address:port. Empty: the system's.",
    parse: dnsServers,
  }),
  GATEHOUSE_EDGE_OPEN_CONNECTIONS: setting({
    default: 'keep',
    help: 'What happens to open TCP connections when what decides about them changes: keep or close.',
    parse: keepOrClose,
  }),
  GATEHOUSE_EDGE_DRAIN_DELAY_SECONDS: setting({
    default: '10',
    help: 'How long the node goes on accepting after SIGTERM, while it is no longer ready.',
    parse: wholeNumber(0, 3_600),
  }),
  GATEHOUSE_EDGE_DRAIN_DEADLINE_SECONDS: setting({
    default: '30',
    help: 'How long open requests and connections may then take to finish.',
    parse: wholeNumber(0, 86_400),
  }),
  GATEHOUSE_EDGE_STATUS_LISTEN: setting({
    default: '127.0.0.1:9180',
    help: 'Where the node tells about itself, as address:port.',
    parse: listenAddress,
  }),
  GATEHOUSE_EDGE_EVENT_PORT: setting({
    default: '9181',
    help: 'UDP port on 127.0.0.1 where HAProxy tells the agent of refusals and warnings.',
    parse: wholeNumber(1, 65_535),
  }),
  GATEHOUSE_EDGE_THREADS: setting({ default: '2', help: 'Threads of HAProxy.', parse: wholeNumber(1, 64) }),
  GATEHOUSE_EDGE_MAX_CONNECTIONS: setting({
    default: '20000',
    help: 'Connections of HAProxy at once.',
    parse: wholeNumber(100, 1_000_000),
  }),
  GATEHOUSE_EDGE_MAX_CONNECTIONS_PER_SOURCE: setting({
    default: '5%',
    help: 'Connections, and requests in flight, of one address (IPv6: one /64): a number, or a share of the above.',
    parse: amount,
  }),
  GATEHOUSE_EDGE_MAX_CONNECTIONS_PER_EDGE: setting({
    default: '25%',
    help: 'TCP connections or requests in flight of one edge: a number, or a share.',
    parse: amount,
  }),
  GATEHOUSE_EDGE_MAX_CONNECTIONS_PER_ACCOUNT: setting({
    default: '50%',
    help: 'TCP connections and requests in flight of one account: a number, or a share.',
    parse: amount,
  }),
  GATEHOUSE_EDGE_UNLIMITED_SOURCES: setting({
    default: '',
    help: 'Addresses and CIDR ranges, comma-separated, without the limit per address, such as load balancers.',
    parse: cidrList,
  }),
  ...natsSettings,
  GATEHOUSE_LOG_LEVEL: setting({ default: 'info', help: `One of ${logLevels.join(', ')}.`, parse: logLevel }),
}

/** What `gatehouse` reads as a client of the API. Empty: a profile says it. */
export const clientSettings = {
  GATEHOUSE_URL: setting({
    default: '',
    help: 'Where the API is, such as https://gatehouse.example.com.',
    parse: (value) => (value === '' ? '' : publicUrl(value)),
  }),
  GATEHOUSE_API_KEY: setting({ default: '', help: 'The token of an API key.', secret: true, parse: text }),
  GATEHOUSE_PROFILE: setting({ default: '', help: 'The profile to use when these two are not set.', parse: text }),
}

type Values<Settings extends Record<string, Setting<unknown>>> = {
  readonly [Name in keyof Settings]: ReturnType<Settings[Name]['parse']>
}
export type Config = Values<typeof settings>
export type EdgeConfig = Values<typeof edgeSettings>

export const readConfig = (environment: NodeJS.ProcessEnv = process.env): Config => readSettings(settings, environment)
export const readEdgeConfig = (environment: NodeJS.ProcessEnv = process.env): EdgeConfig =>
  readSettings(edgeSettings, environment)

/** Asking a node how it is needs nothing but where to ask. */
export const readEdgeStatusConfig = (environment: NodeJS.ProcessEnv = process.env) =>
  readSettings({ GATEHOUSE_EDGE_STATUS_LISTEN: edgeSettings.GATEHOUSE_EDGE_STATUS_LISTEN }, environment)

/** With where the profiles are: the XDG base directories say that a relative path does not count. */
export function readClientConfig(environment: NodeJS.ProcessEnv = process.env) {
  const { XDG_CONFIG_HOME = '' } = environment
  const folder = isAbsolute(XDG_CONFIG_HOME) ? XDG_CONFIG_HOME : join(homedir(), '.config')
  return { ...readSettings(clientSettings, environment), profilesFile: join(folder, 'gatehouse', 'profiles.json') }
}

/**
 * Reads every setting once. A secret may also be given as NAME_FILE, the path of a file that holds it. An empty
 * variable is one that is not set: with an empty URL the driver would go to a database of its own choosing.
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
