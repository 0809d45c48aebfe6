import { authoritiesFault } from '../../kernel/crypto/authorities.ts'
import { filterDefaults, userAgentFault } from '../../kernel/edge/filters.ts'
import { headerNameFault, headersFault, headerValueFault, type Message } from '../../kernel/edge/headers.ts'
import { parseHostport } from '../../kernel/edge/hostport.ts'
import { authorityLimits } from '../../kernel/edge/mutual_tls.ts'
import { matchPattern, matchTypes, maxMatchBytes } from '../../kernel/edge/paths.ts'
import type { Json, Rule } from '../state/kinds.ts'
import { answersHttp, type Backends, stringsIn } from './backends.ts'
import { annotationsOf, isVendorsName, type Notes, othersIn, referredId, textsOf, titleOf } from './notes.ts'
import { importTrafficPolicy } from './traffic_policy.ts'

export type Known = {
  readonly backends: Backends
  readonly policies: ReadonlySet<string>
  /** PEM of the certificate authorities, by id. */
  readonly authorities: ReadonlyMap<string, string>
  readonly notes: Notes
  readonly addPolicy: (description: string, rules: readonly Rule[]) => string
  readonly addResponse: (description: string, fields: Json) => string
}

const policyFields = ['policy', 'traffic_policy']
const fieldsOf = {
  tcp: ['hostports', 'backend', 'ip_restriction', ...policyFields],
  https: ['hostports', 'routes', 'mutual_tls'],
  route: [
    'edge_id',
    'match_type',
    'match',
    'backend',
    'ip_restriction',
    'request_headers',
    'response_headers',
    'user_agent_filter',
    ...policyFields,
  ],
}
/** Modules that do not restrict access. Any other missing module would let in too many. */
const harmless = new Set(['compression', 'circuit_breaker', 'websocket_tcp_converter', 'tls_termination'])

const isOn = (module: unknown): boolean =>
  module !== null && module !== undefined && (module as { enabled?: unknown }).enabled !== false

const signsIn = 'Sign people in at the upstream, or with a proxy such as oauth2-proxy in front of it'
/** Advice about modules that do not exist here, for people who depend on them. */
const insteadOf: Record<string, string> = {
  oauth: signsIn,
  oidc: signsIn,
  saml: signsIn,
  basic_auth: signsIn,
  jwt_validation: 'Verify tokens at the upstream',
  webhook_verification: "Verify the sender's signature at the upstream, and limit who may send with an ip_restriction",
  compression: 'Compress responses at the upstream',
  circuit_breaker: 'Give the backend a health_check, which takes a failing server out',
  websocket_tcp_converter: 'WebSockets are forwarded as they are',
  tls_termination: 'Edges terminate TLS 1.2 and 1.3',
}
const adviceOn = (name: string): string => (insteadOf[name] ? `. ${insteadOf[name]}` : '')

/** Reports modules that do not exist here, and returns the names of those that restrict access. */
function missingModules(title: string, row: Json, of: keyof typeof fieldsOf, notes: Notes): string[] {
  const others = othersIn(row, fieldsOf[of])
  const guards = others.filter(([name, module]) => isOn(module) && !harmless.has(name)).map(([name]) => name)
  for (const [name, module] of others)
    if (!guards.includes(name))
      notes.add(
        title,
        `${name} is left out, because it does not exist here${isOn(module) ? adviceOn(name) : '; it was disabled'}`,
      )
  return guards
}

/** The modules of a TCP edge or route. One that would lose a restriction in the import gets no traffic. */
function modulesOf(title: string, row: Json, guards: readonly string[], known: Known, isTcp: boolean): Json {
  const { notes } = known
  const reasons = guards.map((name) => `${name} does not exist here`)
  const restriction = row.ip_restriction as Json | null | undefined
  const policies = ((restriction?.ip_policies ?? []) as unknown[]).map(referredId)
  const isUsable = policies.length > 0 && policies.every((id) => id !== undefined && known.policies.has(id))
  if (restriction && !isUsable) {
    if (isOn(restriction)) reasons.push('its ip_restriction has no IP policy, or one that is not in the account')
    else notes.add(title, 'ip_restriction is left out, because it has no IP policies; it was disabled')
  }
  const backend = row.backend as Json | null | undefined
  const id = referredId(backend?.backend)
  const isKnown = id !== undefined && known.backends.has(id) && !(isTcp && answersHttp(id, known.backends))
  if (backend && !isKnown) notes.add(title, `comes without a backend, because ${id ?? 'its backend'} is left out`)
  if (reasons.length && backend && isKnown)
    notes.add(title, `comes with its backend disabled, so that it lets no one in: ${reasons.join(', and ')}`)
  else if (reasons.length) notes.add(title, `${reasons.join(', and ')}. Decide about that before you give it a backend`)
  for (const name of guards.filter((each) => insteadOf[each]))
    notes.add(title, `what to do about ${name}: ${insteadOf[name]}. Then set \`enabled: true\` on its backend`)
  return {
    ...(backend && isKnown && { backend: { enabled: isOn(backend) && reasons.length === 0, backend: { id } } }),
    ...(restriction &&
      isUsable && {
        ip_restriction: {
          enabled: isOn(restriction),
          ip_policies: restriction.ip_policies,
          ...(restriction.mode === 'warn' && { mode: 'warn' }),
        },
      }),
  }
}

function hostportsOf(title: string, row: Json, { notes }: Known, isHttps: boolean): string[] {
  return textsOf(row.hostports).filter((hostport) => {
    const parsed = parseHostport(hostport, { wildcard: isHttps })
    const fault =
      typeof parsed === 'string'
        ? parsed
        : isVendorsName(parsed.host)
          ? 'is a name of the vendor. Give the edge one of yours'
          : isHttps && parsed.port !== 443
            ? 'must have port 443'
            : undefined
    if (fault) notes.add(title, `hostport ${hostport} is left out, because it ${fault}`)
    return fault === undefined
  })
}

/** The row with its policies' actions converted to modules, the modules that only Gatehouse has, and what is missing. */
function withActions(title: string, called: string, vendors: Json, hosts: readonly string[], known: Known) {
  const [row, modules]: [Json, Json] = [{ ...vendors }, {}]
  let isAnswered = false
  const place = {
    ...{ title, hosts, row, modules, notes: known.notes, policies: known.policies, isTcp: called !== 'route' },
    addPolicy: (rules: readonly Rule[]) => known.addPolicy(`restrict-ips of ${called} ${vendors.id}`, rules),
    addResponse(fields: Json) {
      isAnswered = true
      return known.addResponse(`response of ${called} ${vendors.id}`, fields)
    },
    isAnswered: () => isAnswered || modules.redirect !== undefined,
  }
  const guards = policyFields.flatMap((name) => importTrafficPolicy(name, vendors[name], place).guards)
  return { row, modules, guards }
}

export function importTcpEdge(vendors: Json, known: Known): Json {
  const title = titleOf('TCP edge', vendors)
  const { row, guards: actions } = withActions(title, 'TCP edge', vendors, [], known)
  const guards = [...missingModules(title, row, 'tcp', known.notes), ...actions]
  return {
    id: row.id,
    ...annotationsOf(title, row, known.notes),
    hostports: hostportsOf(title, row, known, false),
    ...modulesOf(title, row, guards, known, true),
  }
}

export function importHttpsEdge(row: Json, known: Known): Json {
  const { notes } = known
  const title = titleOf('HTTPS edge', row)
  const guards = missingModules(title, row, 'https', notes)
  const routes = (Array.isArray(row.routes) ? row.routes : []) as Json[]
  const mutual_tls = mutualTlsOf(title, row.mutual_tls, known)
  if (row.mutual_tls && !mutual_tls && isOn(row.mutual_tls)) guards.push('an authority of its mutual_tls')
  const isMatch = new RegExp(matchPattern)
  const usable = routes.filter(({ match_type, match }) => {
    const isType = matchTypes.some((type) => type === match_type)
    return isType && typeof match === 'string' && match.length <= maxMatchBytes && isMatch.test(match)
  })
  // Otherwise a wider route of the edge would get the requests of a route that is left out.
  if (usable.length < routes.length) guards.push('the match of one of its routes')
  for (const route of routes.filter((each) => !usable.includes(each)))
    notes.add(`${title}, route ${route.id}`, `left out: ${route.match_type} ${route.match} cannot be matched here`)
  const hosts = textsOf(row.hostports).map((hostport) => hostport.replace(/:\d+$/, ''))
  return {
    id: row.id,
    ...annotationsOf(title, row, notes),
    hostports: hostportsOf(title, row, known, true),
    ...(mutual_tls && { mutual_tls }),
    routes: usable.map((route) =>
      importRoute(`${title}, route ${route.match_type} ${route.match}`, route, hosts, guards, known),
    ),
  }
}

/** The vendor always refuses clients without a certificate. Undefined if an authority is missing or unusable here. */
function mutualTlsOf(title: string, module: unknown, { authorities, notes }: Known): Json | undefined {
  if (!module) return undefined
  const ids = (((module as Json).certificate_authorities ?? []) as unknown[]).map(referredId)
  const found = ids.flatMap(
    (id) => authorities.get(id ?? '')?.match(/-----BEGIN [^-]+-----[^-]+-----END [^-]+-----/g) ?? '',
  )
  const pems = [...new Set(found)]
  const fault = pems.length === 0 ? { fault: 'has no certificate' } : authoritiesFault(pems, Date.now())
  if (!fault && pems.length <= authorityLimits.authorities)
    return { enabled: isOn(module), certificate_authorities: pems.map((pem) => `${pem}\n`), mode: 'required' }
  notes.add(title, `mutual_tls is left out, because an authority ${fault?.fault ?? 'is one too many'}`)
  return undefined
}

function importRoute(
  title: string,
  vendors: Json,
  hosts: readonly string[],
  edgeGuards: readonly string[],
  known: Known,
): Json {
  const { row, modules, guards: actions } = withActions(title, 'route', vendors, hosts, known)
  const guards = [...edgeGuards, ...missingModules(title, row, 'route', known.notes), ...actions]
  const filter = userAgentsOf(row.user_agent_filter)
  if (filter === undefined && isOn(row.user_agent_filter)) guards.push('a pattern of its user_agent_filter')
  else if (filter === undefined)
    known.notes.add(title, 'user_agent_filter is left out, because it has patterns; it was disabled')
  return {
    id: row.id,
    match_type: row.match_type,
    match: row.match,
    ...annotationsOf(title, row, known.notes),
    ...modulesOf(title, row, guards, known, false),
    ...filter,
    ...modules,
    ...headersOf(title, 'request', row.request_headers, known.notes),
    ...headersOf(title, 'response', row.response_headers, known.notes),
  }
}

/** The plain text that a pattern matches, if it matches just one. Case is ignored here. */
function plainText(pattern: string): string | undefined {
  const text = pattern.replace(/^\(\?i\)/, '').replaceAll(/\\(?=[^A-Za-z0-9])./g, (escaped) => `\0${escaped[1]}`)
  return /(?<!\0)[\\.*+?()[\]{}|^$]/.test(text) ? undefined : text.replaceAll('\0', '')
}

/** Undefined if some patterns match more than plain text: without them, the filter would let in too many or too few. */
function userAgentsOf(module: unknown): Json | undefined {
  if (module === null || module === undefined) return {}
  const [allow, deny] = ['allow', 'deny'].map((list) => textsOf((module as Json)[list]).map(plainText))
  const isPlain = (texts: readonly (string | undefined)[] = []): texts is string[] => !texts.includes(undefined)
  if (!isPlain(allow) || !isPlain(deny)) return undefined
  if (allow.length + deny.length === 0) return {}
  const filter = { ...filterDefaults, allow, deny }
  return userAgentFault(filter) ? undefined : { user_agent_filter: { enabled: isOn(module), ...filter } }
}

function headersOf(title: string, message: Message, module: unknown, notes: Notes): Json {
  if (module === null || module === undefined) return {}
  const { add, remove } = module as Json
  const removed = textsOf(remove).filter((name) => {
    const fault = headerNameFault(name, 'remove', message)
    if (fault) notes.add(title, `${message} header ${name} is not removed by the route, because it ${fault}`)
    return fault === undefined
  })
  const added = Object.entries(stringsIn(add)).filter(([name, value]) => {
    const fault =
      headerNameFault(name, 'add', message) ??
      headerValueFault(value) ??
      (value.includes('${') ? 'has a variable, and values are fixed here' : undefined)
    if (fault === undefined) return true
    notes.add(title, `${message} header ${name} is not added, because it ${fault}`)
    // An upstream that trusts this header must not receive the client's own.
    if (message === 'request' && headerNameFault(name, 'remove') === undefined) removed.push(name)
    return false
  })
  const names = new Set<string>()
  const operations = {
    add: Object.fromEntries(added),
    remove: removed.filter((name) => !names.has(name.toLowerCase()) && names.add(name.toLowerCase())),
  }
  const found = headersFault(operations, message)
  if (!found) return { [`${message}_headers`]: { enabled: isOn(module), ...operations } }
  notes.add(title, `${message}_headers is left out, because ${found.place} ${found.fault}`)
  return {}
}
