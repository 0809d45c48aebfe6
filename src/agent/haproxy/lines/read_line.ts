import { type EdgeRequest, isEdgeRequest, requestLimits, requestReasons } from '../../../distribution/requests.ts'
import { isBackend } from '../../../distribution/traffic_report.ts'
import { rfc3339 } from '../../../kernel/clock.ts'
import { type IdPrefix, type Id as IdText, isId, toId, uuidOfHex } from '../../../kernel/ids.ts'
import { formatAddress, parseAddress } from '../../../kernel/ip/address.ts'
import type { Decider, RequestLine } from '../../requests/feed.ts'
import { moduleWarning } from '../config/modules.ts'
import { failureOf } from './failures.ts'
import { type Outcome, outcomeOf, type rulesOf } from './outcomes.ts'
import { readHandshake } from './refused_handshake.ts'
import { commonFields, lineKinds, requestFields } from './request_lines.ts'

export type LineContext = {
  readonly node: string
  /** Identifies the present configuration. */
  readonly edition: string
  readonly rules: ReturnType<typeof rulesOf>
  /** The generation in force at a time in milliseconds. */
  readonly generationAt: (at: number) => number
}

const names = [...commonFields, ...requestFields]
const at = Object.fromEntries(names.map((name, index) => [name, index])) as Record<(typeof names)[number], number>

/**
 * Undefined for HAProxy's messages about itself, and for connections without a request, such as failed TLS handshakes. A
 * client controls only method, host, path and trace, and none of them can contain a tab.
 */
export function readLine(text: string, context: LineContext): RequestLine | undefined {
  const fields = text.split('\t')
  const of = (name: (typeof names)[number]): string => fields[at[name]] ?? '-'
  const kind = of('kind')
  const isHttp = kind === lineKinds.request
  if (fields.length !== (isHttp ? names.length : commonFields.length)) return undefined
  const isHandshake = kind === lineKinds.unreadable && !of('fault').startsWith('0|')
  const handshake = isHandshake ? readHandshake(of('fault'), of('decision'), of('over')) : undefined
  if (isHandshake && !handshake) return undefined
  const arrived = Number(of('at'))
  const source = parseAddress(of('source'))
  if (!source || !Number.isSafeInteger(arrived)) return undefined

  const entry = of('entry').split('|')
  const [target = '', account = '', backend = ''] = entry
  // Policies are the last part of the value, and the line has only the first of them.
  const { refusedBy, allowedBy, warnedBy, warning } = readDecision(
    kind === lineKinds.unreadable ? '-' : of('decision'),
    entry.at(-1) ?? '',
  )
  const status = isHttp ? positive(of('status')) : null
  const ended = { of, status, kind, edition: context.edition, rules: context.rules }
  const { outcome, reason } = handshake
    ? ({ outcome: 'refused', reason: handshake.reason } as const)
    : refusedBy
      ? refused(refusedBy)
      : (limited(of('over')) ?? endOf(ended))
  const isWarned = outcome === 'allowed' && (warnedBy.length > 0 || warning !== undefined)
  const decider = isWarned ? warnedBy[0] : { refused: refusedBy, allowed: allowedBy }[outcome as 'refused' | 'allowed']
  const request: EdgeRequest = {
    id: of('id'),
    at: rfc3339(arrived),
    node: context.node,
    account: handshake?.account ?? idOf('ac', account),
    edge: handshake?.edge ?? (isHttp ? idOf('edghts', of('edge')) : idOf('edgtcp', target)),
    route: idOf('edghtsrt', target),
    source: formatAddress(source),
    protocol: protocolOf(isHttp, of('major'), of('version')),
    method: isHttp ? plain(of('method'), requestLimits.method) : null,
    host: isHttp || handshake ? plain(of(isHttp ? 'host' : 'address'), requestLimits.host) : null,
    path: isHttp ? plain(of('path'), requestLimits.path) : null,
    status,
    durationMs: positive(of('duration')) ?? 0,
    bytesIn: positive(of('bytesIn')) ?? 0,
    bytesOut: positive(of('bytesOut')) ?? 0,
    upstream: upstreamOf(of('address'), of('port')),
    outcome: isWarned ? 'warned' : outcome,
    reason: isWarned ? (warning ?? (decider?.restriction === null ? 'policy' : null)) : reason,
    restriction: decider?.restriction ?? null,
    policy: decider?.policy ?? null,
    rule: decider?.rule ?? null,
    generation: context.generationAt(arrived),
    trace: traceOf(of('trace')),
  }
  // HAProxy is trusted, but this check is cheaper than a field that was forgotten.
  if (!isEdgeRequest(request)) return undefined
  const state = of('state')
  return {
    request,
    isEnd: kind !== lineKinds.warned,
    backend: isBackend(backend) ? backend : null,
    sequence: positive(of('sequence')) ?? 0,
    process: positive(of('process')) ?? 0,
    warnedBy,
    failure:
      outcome === 'failed' ? failureOf({ account, backend, state, fault: of('fault'), isTcp: !isHttp }) : undefined,
  }
}

type Decision = {
  refusedBy?: Decider | undefined
  allowedBy?: Decider | undefined
  warnedBy: Decider[]
  /** The first module that would have refused. */
  warning?: ModuleWarning | undefined
}
type ModuleWarning = Exclude<(typeof requestReasons.warned)[number], 'policy'>
const warnings = requestReasons.warned.filter((name): name is ModuleWarning => name !== 'policy')
/** Parses 'open' or 'shut' and its deciders: see `decide` and `verdict` in gatehouse.lua. */
function readDecision(text: string, firstPolicy: string): Decision {
  if (text === '-') return { warnedBy: [] }
  const [word, ...all] = text.split(' ')
  const warning = warnings.find((name) => all.includes(moduleWarning(name)))
  const deciders = all.filter((each) => !warnings.some((name) => each === moduleWarning(name)))
  const read = (mark: string) => deciders.filter((each) => each.startsWith(mark)).map(deciderOf)
  const [refusedBy = word === 'shut' ? noDecider : undefined] = read('!')
  const named = deciders.find((each) => each.startsWith('+'))
  // For a single policy the decision names only the rule; the entry has the policy.
  const whole = named?.includes(':') ? named : named && `+-:${firstPolicy}:${named.slice(1)}`
  const allowedBy = whole ? deciderOf(whole) : undefined
  return { refusedBy, allowedBy, warnedBy: read('?'), warning }
}
const noDecider: Decider = { restriction: null, policy: null, rule: null }

/** `restriction:policy:rule` after a mark, with - for a missing part, and the rule in hexadecimal. */
function deciderOf(text: string): Decider {
  const [restriction = '', policy = '', rule = ''] = text.slice(1).split(':')
  return { restriction: idOf('ipx', restriction), policy: idOf('ipp', policy), rule: ruleOf(rule) }
}
const ruleOf = (text: string): IdText<'ipr'> | null =>
  /^[0-9a-f]{32}$/.test(text) ? toId('ipr', uuidOfHex(text)) : null

const refused = ({ restriction }: Decider): Outcome => ({
  outcome: 'refused',
  reason: restriction === null ? 'policy' : 'restriction',
})

function limited(over: string): Outcome | undefined {
  const reason = requestReasons.limited.find((name) => name === over)
  return reason && { outcome: 'limited', reason }
}

type End = {
  of: (name: (typeof names)[number]) => string
  status: number | null
  kind: string
  edition: string
  rules: LineContext['rules']
}
function endOf({ of, status, kind, edition, rules }: End): Outcome {
  if (kind === lineKinds.unreadable) return { outcome: 'failed', reason: 'bad_request' }
  return outcomeOf({
    state: of('state'),
    status,
    isTcp: kind !== lineKinds.request,
    hadTlsFault: of('fault').startsWith('SSL_'),
    rule: rules.get(Number(of('rule'))),
    isRuleKnown: of('edition') === edition,
  })
}

const idOf = <P extends IdPrefix>(prefix: P, text: string): IdText<P> | null => (isId(prefix, text) ? text : null)

function positive(text: string): number | null {
  const value = Number(text)
  return Number.isSafeInteger(value) && value >= 0 ? value : null
}

function protocolOf(isHttp: boolean, major: string, version: string): EdgeRequest['protocol'] {
  if (!isHttp) return 'tcp'
  if (major === '2') return 'h2'
  if (major === '3') return 'h3'
  return version === 'HTTP/1.0' ? 'http/1.0' : 'http/1.1'
}

/** HAProxy escapes special characters as `#` and two digits. Unprintable ones are percent-encoded here. */
function plain(text: string, most: number): string | null {
  if (text === '-' || text === '') return null
  const decoded = text.includes('#')
    ? text.replaceAll(/#([0-9A-Fa-f]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
    : text
  const printable = /[^\x21-\x7e]/.test(decoded)
    ? decoded.replaceAll(
        /[^\x21-\x7e]/g,
        (byte) => `%${byte.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`,
      )
    : decoded
  return printable.slice(0, most)
}

function upstreamOf(written: string, port: string): string | null {
  const address = written === '-' ? undefined : parseAddress(written)
  if (!address || !/^[1-9]\d*$/.test(port)) return null
  const text = formatAddress(address)
  return text.includes(':') ? `[${text}]:${port}` : `${text}:${port}`
}

/** W3C Trace Context: a version after 00 may have more fields, 00 may not, ff is invalid, and so is an id of zeros. */
const traceparent = /^(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-?)/
function traceOf(text: string): string | null {
  const [all = '', version, trace = null, more] = traceparent.exec(text) ?? []
  const isWhole = all.length === text.length && more === ''
  return isWhole || (version !== '00' && more === '-') ? trace : null
}
