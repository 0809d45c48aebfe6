import { parse } from 'yaml'
import type { Json } from '../state/kinds.ts'
import { type Action, type Place, readers } from './traffic_actions.ts'

/** A policy's rules in their order of execution; undefined if unreadable. */
type Rules = { readonly phase: Action['phase']; readonly expressions: unknown[]; readonly actions: Json[] }[]

const phases: Record<string, Action['phase']> = {
  on_tcp_connect: 'request',
  inbound: 'request',
  on_http_request: 'request',
  outbound: 'response',
  on_http_response: 'response',
}

const isObject = (value: unknown): value is Json => typeof value === 'object' && value !== null && !Array.isArray(value)

function parsed(text: string): unknown {
  try {
    // JSON is YAML. Aliases are off, because a short text could expand to a very long one.
    return parse(text, { maxAliasCount: 0 })
  } catch {
    return undefined
  }
}

/** `traffic_policy` has the rules as text, `policy` has them as fields. */
function rulesOf(module: Json): Rules | undefined {
  const { enabled: _, value, ...fields } = module
  const found = typeof value === 'string' ? parsed(value) : fields
  if (!isObject(found)) return undefined
  const rules: Rules = []
  for (const [name, phase] of Object.entries(phases)) {
    const listed = found[name] ?? []
    if (!Array.isArray(listed)) return undefined
    for (const rule of listed) {
      const { expressions = [], actions = [] } = isObject(rule) ? rule : { actions: null }
      if (!Array.isArray(expressions) || !Array.isArray(actions) || !actions.every(isObject)) return undefined
      rules.push({ phase, expressions, actions })
    }
  }
  return Object.keys(found).every((name) => Object.hasOwn(phases, name)) ? rules : undefined
}

const signsIn = 'Sign people in at the upstream, or with a proxy such as oauth2-proxy in front of it'
/** Actions that Gatehouse lacks, or has in another form. */
const insteadOf: Record<string, string> = {
  'add-headers': 'Write the values into request_headers or response_headers',
  'basic-auth': signsIn,
  'circuit-breaker': 'Give the backend a health_check, which takes a failing server out',
  'compress-response': 'Compress responses at the upstream',
  'custom-response': 'Use an HTTP response backend, on a route with the path that it is for',
  deny: 'Use an ip_restriction, a user_agent_filter or methods, or a route of its own for the path that it is for',
  'forward-internal': 'Give the route the backend that it forwards to, or make a route for each path',
  'jwt-validation': 'Verify tokens at the upstream',
  log: 'The access log has every request',
  oauth: signsIn,
  'openid-connect': signsIn,
  'rate-limit': 'Set a rate_limit on a route with the path that it is for',
  redirect: 'Set a redirect on a route with the path that it is for',
  'restrict-ips': 'Set an ip_restriction on a route with the path that it is for',
  saml: signsIn,
  'url-rewrite': 'Set a rewrite on a route with the path that it is for, or rewrite at the upstream',
  'verify-webhook': "Verify the sender's signature at the upstream, and limit who may send with an ip_restriction",
}
/** Leaving these out lets in no one who was refused before. */
const harmless = new Set([
  ...['add-headers', 'circuit-breaker', 'compress-response', 'log', 'set-vars', 'terminate-tls'],
])

/**
 * Converts every action with an equivalent module. Reports every other one with advice. `guards`: the missing checks,
 * without which the route would let requests through that the vendor refuses.
 */
export function importTrafficPolicy(name: string, module: unknown, place: Place): { guards: string[] } {
  const { title, notes } = place
  if (module === null || module === undefined) return { guards: [] }
  const rules = isObject(module) ? rulesOf(module) : undefined
  if (isObject(module) && module.enabled === false) {
    notes.add(title, `${name} is left out; it was disabled`)
    return { guards: [] }
  }
  if (!rules) {
    notes.add(title, `what to do about ${name}: its rules cannot be read. Look at each of its actions`)
    return { guards: [`a rule of its ${name}`] }
  }
  let hasGuard = false
  let isOver = false
  for (const { phase, expressions, actions } of rules)
    for (const { type, config } of actions) {
      // Nothing after the response runs at the vendor.
      if (isOver && phase === 'request') continue
      const action: Action = { type: String(type), phase, config: isObject(config) ? config : {} }
      const read = Object.hasOwn(readers, action.type) ? readers[action.type] : undefined
      const why =
        expressions.length > 0
          ? 'it depends on expressions, and a module here acts on every request of its route'
          : read
            ? read(action, place)
            : 'it does not exist here'
      isOver ||= why === undefined && place.isAnswered()
      if (why === undefined) continue
      const advice = insteadOf[action.type]
      notes.add(title, `${action.type} of its ${name} is left out, because ${why}${advice ? `. ${advice}` : ''}`)
      hasGuard ||= !harmless.has(action.type)
    }
  return { guards: hasGuard ? [`an action of its ${name}`] : [] }
}
