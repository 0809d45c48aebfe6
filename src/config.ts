import { readFileSync } from 'node:fs'
import { parseCidr } from './kernel/ip/cidr.ts'
import { type CompiledPolicy, compilePolicy } from './kernel/ip/ranges.ts'

type Setting<Value> = {
  /** Shown by --help, and the value when the variable is not set. Undefined: it must be set. */
  default?: string
  help: string
  secret?: boolean
  parse: (text: string) => Value
}
const setting = <Value>(definition: Setting<Value>): Setting<Value> => definition

/** The message is for the operator: it names the variable and what it must be. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError'
}

const text = (value: string) => value
const wholeNumber = (least: number, most: number) => (value: string) => {
  const number = Number(value)
  if (!/^\d+$/.test(value) || number < least || number > most)
    throw new ConfigError(`must be a whole number from ${least} to ${most}`)
  return number
}
const list = (value: string) =>
  value
    .split(',')
    .map((item) => item.trim())
    .filter(Boolean)

function listenAddress(value: string): { host: string; port: number } {
  const found = /^(?:\[([0-9a-fA-F:]+)\]|([^:]+)):(\d+)$/.exec(value)
  if (!found) throw new ConfigError('must be address:port, such as 127.0.0.1:8080 or [::]:8080')
  return { host: found[1] ?? found[2] ?? '', port: wholeNumber(0, 65_535)(found[3] ?? '') }
}

function publicUrl(value: string): string {
  const url = URL.parse(value)
  if (!url || !/^https?:$/.test(url.protocol) || url.search || url.hash)
    throw new ConfigError('must be an http or https URL without a query')
  return value.replace(/\/+$/, '')
}

function proxyList(value: string): CompiledPolicy {
  const rules = list(value).map((entry) => {
    const parsed = parseCidr(entry)
    if (parsed.fault !== undefined) throw new ConfigError(`has ${JSON.stringify(entry)}, which ${parsed.fault}`)
    return { cidr: parsed.cidr, action: 'allow' as const }
  })
  return compilePolicy(rules)
}

const logLevels = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent']
function logLevel(value: string): string {
  if (!logLevels.includes(value)) throw new ConfigError(`must be one of ${logLevels.join(', ')}`)
  return value
}

export const settings = {
  GATEHOUSE_DATABASE_URL: setting({
    help: 'PostgreSQL, as postgres://user:password@host:port/database.',
    secret: true,
    parse: text,
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
    parse: proxyList,
  }),
  GATEHOUSE_VERSION_HEADER_ALIASES: setting({
    default: '',
    help: 'Further headers that count as Service-Version, comma-separated, such as Ngrok-Version.',
    parse: (value) => list(value.toLowerCase()),
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
  GATEHOUSE_LOG_LEVEL: setting({ default: 'info', help: `One of ${logLevels.join(', ')}.`, parse: logLevel }),
}

type Settings = typeof settings
export type Config = { readonly [Name in keyof Settings]: ReturnType<Settings[Name]['parse']> }

/**
 * Reads every setting once. A secret may also be given as NAME_FILE, the path of a file that holds it. An empty
 * variable is one that is not set: with an empty URL the driver would go to a database of its own choosing.
 */
export function readConfig(environment: NodeJS.ProcessEnv = process.env): Config {
  const entries = Object.entries(settings as Record<string, Setting<unknown>>).map(
    ([name, { parse, secret, default: fallback }]) => {
      const file = (secret && environment[`${name}_FILE`]) || undefined
      const value = environment[name] || (file && readSecret(name, file)) || fallback
      if (value === undefined)
        throw new ConfigError(`${name} is not set: ${(settings as Record<string, Setting<unknown>>)[name]?.help}`)
      try {
        return [name, parse(value)]
      } catch (error) {
        if (error instanceof ConfigError) throw new ConfigError(`${name} ${error.message}`)
        throw error
      }
    },
  )
  return Object.freeze(Object.fromEntries(entries)) as Config
}

function readSecret(name: string, file: string): string {
  try {
    return readFileSync(file, 'utf8').trimEnd()
  } catch (cause) {
    throw new ConfigError(`${name}_FILE names ${file}, which cannot be read`, { cause })
  }
}

export function settingsHelp(): string {
  return Object.entries(settings as Record<string, Setting<unknown>>)
    .map(([name, { help, secret, default: fallback }]) => {
      const value = fallback === undefined ? 'required' : fallback === '' ? 'empty by default' : `default ${fallback}`
      return `  ${name}${secret ? ` (or ${name}_FILE)` : ''}\n      ${help} (${value})`
    })
    .join('\n')
}
