import { ConfigError } from '../kernel/config_error.ts'
import { readDatabaseUrl } from '../kernel/database_url.ts'
import { cellNamePattern } from '../kernel/edge/cells.ts'
import { isHostName } from '../kernel/edge/hostport.ts'
import { parseAddress } from '../kernel/ip/address.ts'
import { type Cidr, parseCidr } from '../kernel/ip/cidr.ts'
import { type CompiledPolicy, compilePolicy } from '../kernel/ip/ranges.ts'

/** Stricter than the driver, which accepts anything: given `nonsense`, it connects to a database on this machine. */
export function databaseUrl(value: string): string {
  const wrong = (why = '') =>
    new ConfigError(`must be a URL such as postgres://user:password@host:port/database${why && `: ${why}`}`)
  if (!/^postgres(ql)?:/i.test(value)) throw wrong()
  try {
    readDatabaseUrl(value)
  } catch (error) {
    throw wrong(error instanceof TypeError ? '' : (error as Error).message)
  }
  return value
}

export const text = (value: string) => value
export const wholeNumber = (least: number, most: number) => (value: string) => {
  const number = Number(value)
  if (!/^\d+$/.test(value) || number < least || number > most)
    throw new ConfigError(`must be a whole number from ${least} to ${most}`)
  return number
}
/** Up to 50 pauses of at most a day each. */
export function seconds(value: string): number[] {
  const all = list(value).map(Number)
  if (all.length === 0 || all.length > 50 || !all.every((each) => each > 0 && each <= 86_400))
    throw new ConfigError('must be 1 to 50 numbers of seconds, comma-separated, each above 0 and at most 86400')
  return all
}
/** An absolute number, or a percentage of a total from elsewhere. */
export type Amount = { readonly count: number } | { readonly percent: number }
export function amount(value: string): Amount {
  const [, digits = '', sign] = /^(\d{1,7})(%?)$/.exec(value) ?? []
  const number = Number(digits)
  if (!digits || number < 1 || (sign && number > 100))
    throw new ConfigError('must be a whole number from 1, or a percentage such as 25%')
  return sign ? { percent: number } : { count: number }
}
export const list = (value: string) =>
  value
    .split(',')
    .map((item) => item.trim())
    .filter(Boolean)

/** The message does not repeat the value, which may contain a password. */
export function natsServers(value: string): string[] {
  const servers = list(value)
  const isServer = (text: string) => {
    const url = URL.parse(/^[a-z]+:\/\//i.test(text) ? text : `nats://${text}`)
    return url !== null && /^(nats|tls):$/.test(url.protocol) && url.hostname !== ''
  }
  if (!servers.every(isServer))
    throw new ConfigError('must be URLs such as tls://nats-1:4222, comma-separated, with nats:// or tls://')
  return servers
}

export function listenAddress(value: string): { host: string; port: number } {
  const found = /^(?:\[([0-9a-fA-F:]+)\]|([^:]+)):(\d+)$/.exec(value)
  if (!found) throw new ConfigError('must be address:port, such as 127.0.0.1:8080 or [::]:8080')
  return { host: found[1] ?? found[2] ?? '', port: wholeNumber(0, 65_535)(found[3] ?? '') }
}

export function publicUrl(value: string): string {
  const url = URL.parse(value)
  if (!url || !/^https?:$/.test(url.protocol) || url.search || url.hash)
    throw new ConfigError('must be an http or https URL without a query')
  return value.replace(/\/+$/, '')
}

export const cidrList = (value: string): Cidr[] =>
  list(value).map((entry) => {
    const parsed = parseCidr(entry)
    if (parsed.fault !== undefined) throw new ConfigError(`has ${JSON.stringify(entry)}, which ${parsed.fault}`)
    return parsed.cidr
  })
export const networks = (value: string): CompiledPolicy =>
  compilePolicy(cidrList(value).map((cidr) => ({ cidr, action: 'allow' })))

export function dnsServers(value: string): string[] {
  const servers = list(value)
  const isServer = (text: string) =>
    parseAddress(text) !== undefined || /^(?:\[[0-9a-f:]+\]|[\d.]+):\d{1,5}$/i.test(text)
  const wrong = servers.find((text) => !isServer(text))
  if (wrong) throw new ConfigError(`has ${JSON.stringify(wrong)}, which is not address or address:port`)
  return servers
}

export function hosts(value: string): string[] {
  const names = list(value.toLowerCase())
  const wrong = names.find((name) => parseAddress(name) === undefined && !isHostName(name))
  if (wrong) throw new ConfigError(`has ${JSON.stringify(wrong)}, which is neither a host name nor an address`)
  return names
}

export function portRange(value: string): { first: number; last: number } {
  const [, first = '', last = ''] = /^(\d+)-(\d+)$/.exec(value) ?? []
  const range = { first: Number(first), last: Number(last) }
  if (!first || range.first < 1 || range.first > range.last || range.last > 65_535) {
    throw new ConfigError('must be a port range such as 20000-29999')
  }
  if (range.first <= 443 && range.last >= 443) throw new ConfigError('must not contain 443, the port of HTTPS edges')
  return range
}

/** At least two labels: the database stores no wildcards above that. */
export function domains(value: string): readonly string[] {
  const names = list(value.toLowerCase())
  if (names.some((name) => !name.includes('.') || !isHostName(name)))
    throw new ConfigError('must be domains with at least two labels, such as apps.example.com')
  return names
}

export const logLevels = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent']
export function logLevel(value: string): string {
  if (!logLevels.includes(value)) throw new ConfigError(`must be one of ${logLevels.join(', ')}`)
  return value
}

/** Replaces dots, which separate tokens of a NATS subject. Kubernetes machine names often contain dots. */
export function nodeName(value: string): string {
  const name = value.replaceAll('.', '-')
  if (!/^[a-z0-9][a-z0-9-]{0,62}$/.test(name))
    throw new ConfigError('must be at most 63 lowercase letters, digits and hyphens')
  return name
}

export function cellName(value: string): string {
  if (!new RegExp(cellNamePattern).test(value))
    throw new ConfigError('must be at most 32 lowercase letters, digits and hyphens')
  return value
}

export function roleName(value: string): string {
  if (value !== '' && !/^[a-z_][a-z0-9_]{0,62}$/.test(value))
    throw new ConfigError('must be at most 63 lowercase letters, digits and underscores')
  return value
}

export function onOrOff(value: string): boolean {
  if (value !== 'on' && value !== 'off') throw new ConfigError('must be on or off')
  return value === 'on'
}

export function requestLines(value: string): 'all' | 'exceptions' {
  if (value !== 'all' && value !== 'exceptions') throw new ConfigError('must be all or exceptions')
  return value
}

export function fullOrTruncated(value: string): 'full' | 'truncated' {
  if (value !== 'full' && value !== 'truncated') throw new ConfigError('must be full or truncated')
  return value
}

export function optionalHttpUrl(value: string): string {
  const url = URL.parse(value)
  if (value !== '' && (!url || !/^https?:$/.test(url.protocol)))
    throw new ConfigError('must be an http:// or https:// URL')
  return value
}

/** A share from 0 to 1, written as a percentage. */
export function percentage(value: string): number {
  const [, digits] = /^(\d{1,3}(?:\.\d{1,3})?)%$/.exec(value) ?? []
  const share = Number(digits) / 100
  if (!(share >= 0 && share <= 1)) throw new ConfigError('must be a percentage from 0% to 100%, such as 10%')
  return share
}

export type LogDestination =
  | { readonly kind: 'stdout' }
  | { readonly kind: 'file'; readonly path: string }
  | { readonly kind: 'syslog'; readonly transport: 'udp' | 'tcp'; readonly host: string; readonly port: number }
  | { readonly kind: 'otlp'; readonly url: string }

/** At most one of each kind, because metrics label destinations by kind. */
export function logDestinations(value: string): LogDestination[] {
  const found = list(value).map(logDestination)
  if (new Set(found.map(({ kind }) => kind)).size < found.length)
    throw new ConfigError('must not have two destinations of one kind')
  return found
}

function logDestination(text: string): LogDestination {
  if (text === 'stdout') return { kind: 'stdout' }
  if (text.startsWith('/')) return { kind: 'file', path: text }
  const url = URL.parse(text)
  const [, transport] = /^syslog\+(udp|tcp):$/.exec(url?.protocol ?? '') ?? []
  if (url && transport && url.port !== '' && url.hostname !== '' && /^\/?$/.test(url.pathname))
    return {
      kind: 'syslog',
      transport: transport as 'udp' | 'tcp',
      host: url.hostname.replace(/^\[|\]$/g, ''),
      port: Number(url.port),
    }
  if (url && /^https?:$/.test(url.protocol)) return { kind: 'otlp', url: text }
  throw new ConfigError(
    'must be stdout, an absolute path, syslog+udp://host:port, syslog+tcp://host:port, or the http(s) URL of an OTLP endpoint',
  )
}

export function nodeKeyTrust(value: string): 'first' | 'approved' {
  if (value === 'first' || value === 'approved') return value
  throw new ConfigError('must be first or approved')
}
export function keepOrClose(value: string): 'keep' | 'close' {
  if (value !== 'keep' && value !== 'close') throw new ConfigError('must be keep or close')
  return value
}

export const domainOwnerships = ['auto', 'trusted', 'required'] as const
export function domainOwnership(value: string): (typeof domainOwnerships)[number] {
  const known = domainOwnerships.find((each) => each === value)
  if (!known) throw new ConfigError(`must be one of ${domainOwnerships.join(', ')}`)
  return known
}

const acmeDirectories: Record<string, string> = {
  letsencrypt: 'https://acme-v02.api.letsencrypt.org/directory',
  'letsencrypt-staging': 'https://acme-staging-v02.api.letsencrypt.org/directory',
}
export function acmeDirectory(value: string): string {
  const url = acmeDirectories[value] ?? value
  if (url !== '' && URL.parse(url)?.protocol !== 'https:')
    throw new ConfigError(`must be an https URL, ${Object.keys(acmeDirectories).join(' or ')}`)
  return url
}
export function acmeChallenge(value: string): 'http-01' | 'dns-01' {
  if (value !== 'http-01' && value !== 'dns-01') throw new ConfigError('must be http-01 or dns-01')
  return value
}
