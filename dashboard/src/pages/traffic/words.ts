import type { Tone } from '../../ui/badge.tsx'
import type { IconName } from '../../ui/icons.tsx'
import type { Request } from './log.ts'

type Outcome = Request['outcome']

/** Allowed requests are gray, so that problems stand out. */
export const verdicts: Record<Outcome, { word: string; tone: Tone; icon: IconName }> = {
  allowed: { word: 'Allowed', tone: 'neutral', icon: 'allowed' },
  refused: { word: 'Refused', tone: 'refused', icon: 'refused' },
  warned: { word: 'Warned', tone: 'warned', icon: 'warned' },
  limited: { word: 'Limited', tone: 'refused', icon: 'refused' },
  failed: { word: 'Failed', tone: 'refused', icon: 'unknown' },
}

/** Reasons as in docs/guides/access-log.md. */
const sentences: Record<string, string> = {
  source: 'Too many connections from this address',
  edge: 'Too many connections to this edge',
  account: 'Too many connections to this account',
  websockets: 'Too many WebSockets',
  user_agent_filter: 'The route does not accept this User-Agent',
  cors: 'The route does not accept pages of this origin',
  methods: 'The route does not accept this method',
  emergency: 'The operator of the installation refuses this address for now',
  client_certificate_missing: 'The client showed no certificate',
  client_certificate_expired: 'The client certificate has expired, or is not valid yet',
  client_certificate_untrusted: 'The client certificate is not of an accepted authority, or not for clients',
  rate_limit: 'More than the rate limit allows',
  bad_request: 'Not a valid request',
  bad_host: 'Not a valid host name',
  bad_forwarded_for: 'The forwarded address cannot be read',
  ambiguous_path: 'The path can be read in two ways',
  method_not_allowed: 'The edge does not accept this method',
  misdirected: 'The host name is not the one of the TLS connection',
  no_websocket: 'The route takes no WebSockets',
  no_route: 'No route matches',
  no_backend: 'There is no backend',
  all_down: 'Every upstream of the backend is down',
  draining: 'The node was about to stop',
  not_ready: 'The node was not ready',
  internal: 'The node had an internal error',
  connect_failed: 'could not be reached',
  connect_timeout: 'did not accept the connection in time',
  tls_failed: 'failed at TLS',
  no_response: 'did not answer',
  response_timeout: 'did not answer in time',
  response_invalid: 'did not answer with valid HTTP',
  response_cut: 'did not finish its answer',
  client_timeout: 'The client was too slow',
  client_closed: 'The client left before the answer',
}
const ofUpstream = /^(connect_|tls_|no_response|response_)/

/** The failure, unless a rule decided. */
export function failureOf({ reason, upstream }: Pick<Request, 'reason' | 'upstream'>): string | undefined {
  if (reason === null || reason === 'policy' || reason === 'restriction') return undefined
  const sentence = sentences[reason] ?? reason
  return ofUpstream.test(reason) ? `Upstream ${upstream ?? ''} ${sentence}`.replace('  ', ' ') : sentence
}

const protocols: Record<NonNullable<Request['protocol']>, string> = {
  tcp: 'TCP',
  'http/1.0': 'HTTP/1.0',
  'http/1.1': 'HTTP/1.1',
  h2: 'HTTP/2',
  h3: 'HTTP/3',
}
export const protocolOf = ({ protocol }: Request): string => (protocol ? protocols[protocol] : 'API')

/** `14:32:08.114`, in UTC like the access log of the nodes. */
export const clockOf = ({ created_at }: Pick<Request, 'created_at'>): string => created_at.slice(11, 23)
export const dayOf = ({ created_at }: Pick<Request, 'created_at'>): string => created_at.slice(0, 10)
