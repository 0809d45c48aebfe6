import type {
  CellNodesRecord,
  ChallengeRecord,
  FailoverRecord,
  HttpsRecord,
  MutualTlsRecord,
  ResponseRecord,
  RestrictionsRecord,
  RouteRecord,
  TcpRecord,
  WeightedRecord,
} from '../../../distribution/records.ts'
import { routeModuleNames } from '../../../distribution/route_modules.ts'
import { challengeAnswerPattern, challengeTokenPattern } from '../../../kernel/edge/domains.ts'
import { responseFault } from '../../../kernel/edge/fixed_response.ts'
import { encodeHeaderText, headersFault, type Message } from '../../../kernel/edge/headers.ts'
import { checkPathPattern } from '../../../kernel/edge/health_check.ts'
import { isHostName } from '../../../kernel/edge/hostport.ts'
import { hasEncodedSlash, hasParameters } from '../../../kernel/edge/paths.ts'
import { exactGuardKey, exactKey, prefixGuardKey, prefixKey } from '../../../kernel/edge/route_keys.ts'
import { timeoutLimits, websocketIdleSeconds } from '../../../kernel/edge/timeouts.ts'
import { type IdPrefix, idLength, isId } from '../../../kernel/ids.ts'
import { type Address, formatAddress, parseAddress } from '../../../kernel/ip/address.ts'
import type { ResolvedBackend } from '../../upstreams/resolver.ts'
import { formatGroup, formatUpstream, sendsProxy, toHttp2 } from '../native/upstream.ts'
import {
  backendValue,
  depthDigits,
  readPart,
  type TargetKind,
  targetValue,
  timeoutsValue,
  UnusableRecord,
  withHeaders,
  withModule,
} from './codec.ts'
import { headerLists, responseLists } from './header_lists.ts'
import { connectionLimitEntry, moduleEntries, moduleParts } from './module_entries.ts'
import { hostportOf, mutualTlsEntries, nameEntries } from './name_entries.ts'
import { responseValue } from './response_entry.ts'

/**
 * Ordered by dependency: a map comes after the maps that its entries refer to. `node` is last, because its entry says
 * that all others are loaded.
 */
export const mapNames = [
  'emergency',
  'policy',
  'restrictions',
  'backend',
  'check',
  'http_native',
  'tcp_native',
  'headers',
  'header_lists',
  'response_lists',
  'cors_origin',
  'cell_nodes',
  ...routeModuleNames,
  'timeouts',
  'response',
  'fallback',
  'tcp',
  'guard',
  'guarded',
  'odd_guard',
  'mutual_tls',
  'route',
  'host',
  'wildcard',
  'challenge',
  'node',
] as const
export type MapName = (typeof mapNames)[number]
/** Not maps of HAProxy: the source of its native backends (native/model.ts). */
export const partNames = ['upstream', 'group'] as const
export type PartName = (typeof partNames)[number]
export type Entry = { readonly map: MapName | PartName; readonly key: string; readonly value: string }

export const accountOf = ({ map, value }: Entry): string => readPart(value, 'account', kindOfMap(map))
/** The backend that an entry defines or uses. */
export const backendOf = (entry: Entry): string =>
  entry.map === 'tcp' || entry.map === 'route' ? readPart(entry.value, 'backend', kindOfMap(entry.map)) : entry.key
const kindOfMap = (map: Entry['map']): TargetKind => (map === 'tcp' ? 'edgtcp' : 'edghtsrt')
/** Entry of an account without restrictions: an account without an entry is shut. */
export const noRestrictions = 'none'

/** Present from the first complete read on. */
export const readyKey = 'ready'
/** Without these entries, HAProxy answers that the node is not ready instead of that nothing is there. */
export const readyEntries: readonly Entry[] = [{ map: 'node', key: readyKey, value: 'yes' }]

/** Value of `slashes` for a route that allows encoded slashes in paths. */
export const slashesAllowed = 'a'
/** Value of `slashes` for a route whose match has parameters. No path with both passes. */
export const matchesParameters = 'p'

/** Value of `variants` for a route whose policies ignore other spellings of its path. */
export const ignoresVariants = 'i'

/** Precedes the policies of an edge or route that only warns. No policy id starts with it. */
export const onlyWarns = '?'

/** Value of `websocket` for a route that refuses WebSockets. */
export const noWebsocket = 'n'

/** Value of `timeouts` for a route with its own timeouts. */
export const withTimeouts = 't'

/**
 * Converts a record to HAProxy map entries, or to none if the record was deleted. Each record has its own entries, which
 * do not depend on other records: HAProxy joins them by look-up for each connection.
 *
 * Throws UnusableRecord. Refuses or encodes characters that could end a map line, a field or a runtime command.
 */
export function entriesOf(recordKey: string, value: unknown): Entry[] {
  const [kind = '', id = ''] = recordKey.split('.', 2)
  if (value === null) return []
  const compile = Object.hasOwn(compilers, kind) ? compilers[kind] : undefined
  if (!compile) throw new UnusableRecord(`${recordKey} is of no known kind`)
  try {
    return compile(id, value)
  } catch (error) {
    if (error instanceof UnusableRecord) throw error
    throw new UnusableRecord(`${recordKey} does not have the shape of its kind`, { cause: error })
  }
}

/** Entries are claims. A changed value is another entry, so a change removes one entry and adds another. */
export function difference(before: readonly Entry[], after: readonly Entry[]): { set: Entry[]; del: Entry[] } {
  const name = ({ map, key, value }: Entry) => `${map} ${key} ${value}`
  const old = new Set(before.map(name))
  const now = new Set(after.map(name))
  return {
    set: after.filter((entry) => !old.has(name(entry))),
    del: before.filter((entry) => !now.has(name(entry))),
  }
}

// biome-ignore lint/suspicious/noExplicitAny: each reads the value of its own kind, and entriesOf refuses what it throws on.
const compilers: Record<string, (id: string, value: any) => Entry[]> = {
  tcp(id, { hostports, account, backend, policies, policies_mode, rate_limit }: TcpRecord) {
    const value = targetValue({
      target: known('edgtcp', id),
      account: known('ac', account),
      backend: backendField(backend),
      ...(rate_limit && { rate_limit: withModule }),
      policies: policiesField(policies, policies_mode),
    })
    return [
      ...(rate_limit ? [connectionLimitEntry(id, rate_limit)] : []),
      ...hostports.map((text): Entry => ({ map: 'tcp', key: destinationKey(text), value })),
    ]
  },
  https: (id, { hostports }: HttpsRecord) => nameEntries(hostports, known('edghts', id)),
  mutual_tls: (id, record: MutualTlsRecord) =>
    mutualTlsEntries(known('edghts', id), known('ac', record.account), record),
  route(id, record: RouteRecord) {
    const { account, edge, match_type, match, backend, policies, headers, encoded_slashes, websocket, timeouts } =
      record
    known('edghtsrt', id)
    known('edghts', edge)
    if (!match.startsWith('/')) throw new UnusableRecord(`the match of ${id} does not begin with a slash`)
    if (hasEncodedSlash(match)) throw new UnusableRecord(`the match of ${id} has an encoded slash or a backslash`)
    if (match_type !== 'exact_path' && match_type !== 'path_prefix') throw new UnusableRecord(`${id} matches no way`)
    const operations = [
      ...(headers ? headerEntries(id, headers) : []),
      ...(record.response_headers ? responseHeaderEntries(id, record.response_headers) : []),
      ...moduleEntries(id, record),
    ]
    const isExact = match_type === 'exact_path'
    const guardKey = isExact ? exactGuardKey(edge, match) : prefixGuardKey(edge, match)
    const value = targetValue({
      target: id,
      account: known('ac', account),
      backend: backendField(backend, 'bkdhr'),
      slashes: hasParameters(match) ? matchesParameters : encoded_slashes === 'allow' ? slashesAllowed : undefined,
      websocket: websocket === false ? noWebsocket : undefined,
      timeouts: timeouts ? withTimeouts : undefined,
      depth: depthField(edge, guardKey),
      variants: record.path_variants === 'ignore' ? ignoresVariants : undefined,
      ...moduleParts(record),
      response: record.response_headers ? withHeaders : undefined,
      headers: headers ? withHeaders : undefined,
      policies: policiesField(policies, record.policies_mode),
    })
    const route: Entry = { map: 'route', key: isExact ? exactKey(edge, match) : prefixKey(edge, match), value }
    // HAProxy copies a look-up key into a buffer: it could never find a longer key.
    if (route.key.length > 8_000) throw new UnusableRecord(`the match of ${id} is too long`)
    const waits: Entry[] = timeouts ? [{ map: 'timeouts', key: id, value: milliseconds(timeouts) }] : []
    const guards: Entry[] =
      policies === null || record.policies_mode === 'warn' || record.path_variants === 'ignore'
        ? []
        : [
            { map: 'guard', key: guardKey, value },
            { map: 'guarded', key: edge, value: id },
            ...(guardKey === route.key ? [] : [{ map: 'odd_guard', key: edge, value: id } as const]),
          ]
    return [...operations, ...waits, ...guards, route]
  },
  backend(id, { address, addresses, port, tls, host, protocol, send_proxy_protocol, health_check }: ResolvedBackend) {
    known('bkdst', id)
    if (address === null) return []
    const dialed = (addresses ?? [address]).map((each) => {
      const parsed = parseAddress(each)
      if (!parsed) throw new UnusableRecord(`${id} has no address but ${JSON.stringify(each)}`)
      return formatAddress(parsed)
    })
    if (!Number.isInteger(port) || port < 1 || port > 65_535) throw new UnusableRecord(`${id} has no usable port`)
    if (protocol !== undefined && protocol !== 'http2') throw new UnusableRecord(`${id} has no known protocol`)
    const upstream = {
      isTls: tls,
      isHttp2: protocol === 'http2',
      addresses: dialed,
      port,
      host: tls ? hostOf(host) : '-',
      sendsProxy: send_proxy_protocol === true,
      check: health_check,
    }
    if (dialed.length > 1 || health_check)
      return [
        ...checkEntries(id, host, port, health_check?.path),
        { map: 'upstream', key: id, value: formatUpstream(upstream) },
      ]
    const value = backendValue.format({
      protocol: `${tls ? 'tls' : 'plain'}${protocol ? toHttp2 : ''}`,
      address: dialed[0],
      port,
      host: upstream.host,
      proxy: send_proxy_protocol ? sendsProxy : undefined,
    })
    return [{ map: 'backend', key: id, value }]
  },
  response(id, record: ResponseRecord) {
    known('bkdhr', id)
    const fault = responseFault(record)
    if (fault) throw new UnusableRecord(`${fault.place} ${fault.fault}`)
    return [{ map: 'response', key: id, value: bounded(id, responseValue(record)) }]
  },
  weighted(id, { account, backends }: WeightedRecord) {
    const members = backends.map(([member, weight]) => [known('bkdst', member), weightOf(weight)] as const)
    const value = formatGroup({ kind: 'weighted', account: known('ac', account), members })
    return [{ map: 'group', key: known('bkdwd', id), value }]
  },
  failover(id, { account, backends, response }: FailoverRecord) {
    const members = backends.map((member) => [known('bkdst', member), 1] as const)
    const value = formatGroup({ kind: 'failover', account: known('ac', account), members })
    const last: Entry[] = response ? [{ map: 'fallback', key: id, value: known('bkdhr', response) }] : []
    return [...last, { map: 'group', key: known('bkdfo', id), value }]
  },
  /** Not in a map: see tenant_certificates.ts. */
  certificate: () => [],
  recipient: () => [],
  /** `files` holds the hashes of the policy file and the rule file, which the agent has already written. */
  policy(id, files: string) {
    if (typeof files !== 'string' || !/^[0-9a-f]{64}(\.[0-9a-f]{64})?$/.test(files))
      throw new UnusableRecord(`${id} does not name files by their SHA-256`)
    return [{ map: 'policy', key: known('ipp', id), value: files }]
  },
  challenge(id, { host, token, answer }: ChallengeRecord) {
    known('chl', id)
    const plain = new RegExp(challengeTokenPattern)
    if (!isHostName(host) || !plain.test(token) || !new RegExp(challengeAnswerPattern).test(answer))
      throw new UnusableRecord(`${id} is no challenge`)
    return [{ map: 'challenge', key: `${host.toLowerCase()}/${token}`, value: bounded(id, answer) }]
  },
  cell_nodes(id, { nodes }: CellNodesRecord) {
    if (!Number.isInteger(nodes) || nodes < 1) throw new UnusableRecord(`${id} has no number of nodes`)
    return [{ map: 'cell_nodes', key: known('ac', id), value: String(nodes) }]
  },
  restrictions(id, { sets }: RestrictionsRecord) {
    known('ac', id)
    if (sets.length === 0) return [{ map: 'restrictions', key: id, value: noRestrictions }]
    const encoded = sets.map(
      ({ id: set, enforced, policies }) => `${known('ipx', set)}${enforced ? '!' : '?'}${list(policies)}`,
    )
    return [{ map: 'restrictions', key: id, value: bounded(id, encoded.join(' ')) }]
  },
}

/** If two routes match a reading of a path, the longer match wins. */
const depthField = (edge: string, guardKey: string): string =>
  String(guardKey.length - edge.length).padStart(depthDigits, '0')

function milliseconds(timeouts: NonNullable<RouteRecord['timeouts']>): string {
  const { connect_seconds: connect, response_seconds: response, idle_seconds: idle } = timeoutLimits
  const ms = (seconds: number): number => {
    if (!Number.isInteger(seconds) || seconds <= 0) throw new UnusableRecord('a timeout is no number')
    return seconds * 1_000
  }
  return timeoutsValue.format({
    connect: ms(timeouts.connect_seconds ?? connect.default),
    response: ms(timeouts.response_seconds ?? response.default),
    idle: ms(timeouts.idle_seconds ?? idle.default),
    tunnel: ms(timeouts.idle_seconds ?? websocketIdleSeconds),
  })
}

function known(prefix: IdPrefix, id: string): string {
  if (typeof id !== 'string' || !isId(prefix, id)) throw new UnusableRecord(`${JSON.stringify(id)} is no ${prefix} id`)
  return id
}

/** Backend ids of all kinds have the same length. */
function backendField(backend: string | null, ...others: IdPrefix[]): string {
  if (backend === null) return '-'.repeat(idLength('bkdst'))
  const prefix = (['bkdwd', 'bkdfo', ...others] as const).find((each) => isId(each, backend))
  return known(prefix ?? 'bkdst', backend)
}
function weightOf(weight: number): number {
  if (!Number.isInteger(weight) || weight < 0) throw new UnusableRecord(`${JSON.stringify(weight)} is no weight`)
  return weight
}
/** `host|path` of an HTTP check. */
function checkEntries(id: string, host: string, port: number, path: string | undefined): Entry[] {
  if (path === undefined) return []
  if (!new RegExp(checkPathPattern).test(path)) throw new UnusableRecord(`the check of ${id} has no usable path`)
  const name = hostOf(host)
  return [{ map: 'check', key: id, value: `${name.includes(':') ? `[${name}]` : name}:${port}|${path}` }]
}
const list = (policies: readonly string[]): string => policies.map((policy) => known('ipp', policy)).join('+')
/** An empty list becomes no opening word: no policy allows. */
function policiesField(policies: readonly string[] | null, mode: TcpRecord['policies_mode']): string {
  if (policies === null) return 'open'
  if (mode !== undefined && mode !== 'warn') throw new UnusableRecord(`${JSON.stringify(mode)} is no mode of policies`)
  return `${mode === 'warn' ? onlyWarns : ''}${list(policies)}`
}

/** A TCP client does not send the name it connected to, so a name matches every listening address. */
function destinationKey(text: string): string {
  const { host, port } = hostportOf(text, false)
  const address = parseAddress(host.replaceAll(/[[\]]/g, ''))
  return `${address ? printedByHaproxy(address) : '*'}:${port}`
}

/** The C library writes the last 32 bits of ::/96 dotted; RFC 5952 and the agent do not. */
function printedByHaproxy(address: Address): string {
  if (address.family === 4 || address.w0 || address.w1 || address.w2 || address.w3 <= 0xffff) {
    return formatAddress(address)
  }
  return `::${formatAddress({ family: 4, value: address.w3 })}`
}

function hostOf(host: string): string {
  const parsed = hostportOf(host.includes(':') && !host.startsWith('[') ? `[${host}]:1` : `${host}:1`, false)
  return parsed.host.replaceAll(/[[\]]/g, '')
}

/** A runtime command has to fit into one of HAProxy's buffers. */
const valueBytes = 24_000

function bounded(id: string, value: string): string {
  if (value.length > valueBytes) throw new UnusableRecord(`${id} is too large for the proxy (${value.length} bytes)`)
  return value
}

type HeaderList = NonNullable<RouteRecord['headers']>

function checkOperations({ add, remove }: HeaderList, message: Message): void {
  const operations = { add: Object.fromEntries(add), remove }
  const isTwice = Object.keys(operations.add).length !== add.length
  const fault = isTwice ? { place: 'add', fault: 'names a header twice' } : headersFault(operations, message)
  if (fault) throw new UnusableRecord(`header operation ${fault.place} ${fault.fault}`)
}

/**
 * Writes the operations for Lua, which supports all of them, and for HAProxy's own actions if these can express them.
 */
function headerEntries(route: string, operations: HeaderList): Entry[] {
  checkOperations(operations, 'request')
  const { add, remove } = operations
  const added = add.map(([name, value]) => `${encodeHeaderText(name)}=${encodeHeaderText(value)}`)
  const text = `${added.join('&')}|${remove.map(encodeHeaderText).join('&')}`
  const forLua: Entry = { map: 'headers', key: route, value: bounded('a list of header operations', text) }
  const lists = headerLists(add, remove)
  if (lists === undefined || lists.length > valueBytes) return [forLua]
  return [forLua, { map: 'header_lists', key: route, value: lists }]
}

function responseHeaderEntries(route: string, operations: HeaderList): Entry[] {
  checkOperations(operations, 'response')
  const value = responseLists(operations.add, operations.remove)
  return [{ map: 'response_lists', key: route, value: bounded('a list of response headers', value) }]
}
