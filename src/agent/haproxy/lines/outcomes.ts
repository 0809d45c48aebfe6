import { type RequestOutcome, type RequestReason, requestReasons } from '../../../distribution/requests.ts'
import { answers } from '../config/answers.ts'
import { refuseConnection } from '../config/rules.ts'

export type Outcome = { outcome: RequestOutcome; reason: RequestReason | null }

const failed = (reason: RequestReason): Outcome => ({ outcome: 'failed', reason })
const allowed: Outcome = { outcome: 'allowed', reason: null }

/**
 * Reasons of the edge's own answers, except the redirect, and refusals by policies and limits, which have their own
 * fields in a line.
 */
const reasonOfAnswer: readonly (readonly [string, RequestReason])[] = [
  [answers.badRequest, 'bad_request'],
  [answers.emergency, 'emergency'],
  [answers.userAgentRefused, 'user_agent_filter'],
  [answers.corsRefused, 'cors'],
  [answers.methodRefused, 'methods'],
  [answers.certificateMissing, 'client_certificate_missing'],
  [answers.certificateExpired, 'client_certificate_expired'],
  [answers.certificateRefused, 'client_certificate_untrusted'],
  [answers.badHost, 'bad_host'],
  [answers.badForwardedFor, 'bad_forwarded_for'],
  [answers.ambiguousPath, 'ambiguous_path'],
  [answers.notAllowed, 'method_not_allowed'],
  [answers.misdirected, 'misdirected'],
  [answers.notFound, 'no_route'],
  [answers.noWebsocket, 'no_websocket'],
  [answers.internal, 'internal'],
  [answers.badGateway, 'response_invalid'],
  [answers.allDown, 'all_down'],
  [answers.unavailable, 'no_backend'],
  [answers.draining, 'draining'],
  [answers.notReady, 'not_ready'],
  [answers.changing, 'not_ready'],
]

/**
 * Maps configuration lines to reasons. HAProxy logs the line that ended a request, which costs nothing on the request
 * path. A line that is not in the map ends no request: the response came from an upstream or was a tenant's own. For
 * refusals by a policy the logged decision names who refused; a refusing line without a decision means that Lua failed.
 */
export function rulesOf(config: string): ReadonlyMap<number, RequestReason> {
  const rules = new Map<number, RequestReason>()
  for (const [index, line] of config.split('\n').entries()) {
    if (line.includes(`return ${answers.refused} `)) rules.set(index + 1, 'internal')
    const found = reasonOfAnswer.find(([answer]) => line.includes(`return ${answer}`))
    if (found) rules.set(index + 1, found[1])
    else if (line.trimStart().startsWith(refuseConnection)) rules.set(index + 1, reasonOfRefused(line))
  }
  return rules
}

function reasonOfRefused(line: string): RequestReason {
  if (line.includes('!allowed') || line.includes('knows_') || line.includes('rate_count')) return 'internal'
  return line.includes('all_down') ? 'all_down' : 'no_backend'
}

/** Used for lines of a worker with another configuration. */
const reasonOfStatus: Record<number, RequestReason> = {
  400: 'bad_request',
  403: 'policy',
  404: 'no_route',
  405: 'method_not_allowed',
  421: 'misdirected',
  502: 'response_invalid',
  503: 'no_backend',
}

type Ended = {
  /** HAProxy's termination state, two letters: who ended it, and when. */
  state: string
  status: number | null
  isTcp: boolean
  hadTlsFault: boolean
  rule: RequestReason | undefined
  isRuleKnown: boolean
}

/** Derives the outcome from the termination state, if neither a limit nor a policy decided. */
export function outcomeOf({ state, status, isTcp, hadTlsFault, rule, isRuleKnown }: Ended): Outcome {
  const [who, when = '-'] = state
  if (who === 'L' || (who === 'P' && when === 'R')) {
    const reason = isRuleKnown ? rule : reasonOfStatus[status ?? (isTcp ? 503 : 400)]
    if (reason === undefined) return allowed
    return requestReasons.refused.some((each) => each === reason) ? { outcome: 'refused', reason } : failed(reason)
  }
  if (when === 'C' && (who === 'S' || who === 's'))
    return failed(hadTlsFault ? 'tls_failed' : who === 's' ? 'connect_timeout' : 'connect_failed')
  // An established TCP connection may end in any way, and a client may leave in the middle of a response.
  if (isTcp) return who === 'C' && when === 'C' ? failed('client_closed') : allowed
  if (when === 'D' || when === 'L') return who === 'S' || who === 's' || who === 'P' ? failed('response_cut') : allowed
  return beforeAnswer[who ?? '-'] ?? allowed
}

/** Keyed by who ended it. */
const beforeAnswer: Record<string, Outcome> = {
  S: failed('no_response'),
  s: failed('response_timeout'),
  P: failed('response_invalid'),
  C: failed('client_closed'),
  c: failed('client_timeout'),
  R: failed('internal'),
  I: failed('internal'),
}
