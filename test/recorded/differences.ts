import { moduleSamples } from '../harness/route_modules.ts'
import type { Exchange, Response } from './exchanges.ts'

/** Fields that responses have today in addition, each with the values under which everything is as it was. */
const newFields: { because: string; field: string; value: string }[] = [
  { because: 'a key names the key that created it', field: 'created_by_key_id', value: 'null|"ak_\\w+"' },
  { because: 'a key may be limited to operations', field: 'scopes', value: '\\["\\*"\\]' },
  { because: 'a key may be limited to source ranges', field: 'allowed_cidrs', value: '\\[\\]' },
  { because: 'an upstream may get the PROXY protocol', field: 'send_proxy_protocol', value: 'false' },
  { because: 'an upstream may be checked', field: 'health_check', value: 'null' },
  { because: 'an upstream may speak HTTP/2', field: 'protocol', value: '"http1"' },
  { because: 'a route may refuse WebSockets', field: 'websocket', value: 'true' },
  { because: 'a route may have timeouts', field: 'timeouts', value: 'null' },
  { because: 'a route may leave other spellings of its path alone', field: 'path_variants', value: '"restrict"' },
  { because: 'a route may allow encoded slashes', field: 'encoded_slashes', value: '"reject"' },
  { because: 'a destination may want messages for people', field: 'format', value: '"standard"' },
  { because: 'an edge may be served by some cells only', field: 'cells', value: 'null' },
  { because: 'a route may change the headers of responses', field: 'response_headers', value: 'null' },
  { because: 'an edge may ask for client certificates', field: 'mutual_tls', value: 'null' },
  { because: 'a module for addresses may only warn', field: 'mode', value: '"enforce"' },
  ...Object.entries(moduleSamples).map(([field, { because }]) => ({ because, field, value: 'null' })),
  { because: 'a resource says how it is', field: 'status', value: '{"state":[^}]*}' },
  { because: 'a caller learns the name of its account', field: 'account_name', value: '"[^"]*"' },
  { because: 'a caller learns its quotas', field: 'quotas', value: '{(?:"\\w+":{"used":\\d+,"limit":\\d+},?)+}' },
  { because: 'a caller learns when its key expires', field: 'expires_at', value: '[^,]*(?=,"requests_per_minute")' },
  { because: 'a caller learns its limit', field: 'requests_per_minute', value: '\\d+' },
  { because: 'a caller learns the limit of its account', field: 'account_requests_per_minute', value: '\\d+' },
  {
    because: 'a caller learns which changes need to be confirmed',
    field: 'unusual_above',
    value: '{"entries":20,"percent":50}',
  },
  { because: 'a 404 suggests a path', field: 'suggestion', value: '"[^"]*"' },
  { because: 'an error leads to its explanation', field: 'doc_url', value: '"[^"]*"' },
  { because: 'an error lists every invalid field', field: 'errors', value: '"[^"]*"|\\[{.*?}\\]' },
  { because: 'an impact says what is not known', field: 'let_in_known', value: '"all"' },
  { because: 'an impact says what is not known', field: 'unknown_at', value: '\\[\\]' },
  { because: 'a change may be part of rollouts', field: 'rollouts', value: '\\[\\]' },
  { because: 'a user shows whether they have signed in', field: 'has_signed_in', value: 'true|false' },
  { because: 'a user shows their invitation', field: 'invitation_state', value: 'null' },
  { because: 'a user shows their invitation', field: 'invitation_expires_at', value: 'null' },
  { because: 'a user shows their invitation', field: 'invitation_api_key_id', value: 'null' },
  { because: 'a module shows what it takes', field: 'backend_id', value: '"[^"]*"' },
  { because: 'a module shows what it takes', field: 'ip_policy_ids', value: '\\[[^\\]]*\\]' },
]

/** What answers say of their compression is said by test/compressed_answers.test.ts. */
export const withoutNewFields = ({ body, headers: { location: _, vary, ...headers }, status }: Response): Response => ({
  status,
  headers: { ...headers, ...(vary && vary !== 'Accept-Encoding' && { vary }) },
  body: newFields.reduce((text, { field, value }) => {
    const pair = `"${field}":(?:${value})`
    return text.replaceAll(new RegExp(`${pair},|,${pair}(?=})`, 'g'), '')
  }, body),
})

type Difference = {
  because: string
  appliesTo: (exchange: Exchange) => boolean
  /** From the recorded response, and from the one before it, to what is expected today. */
  today: (recorded: Response, before: Response) => Response
}

/** The headers that every response has. */
const usualHeaders = (id: string) => ({
  'cache-control': 'no-store',
  'content-type': 'application/json; charset=utf-8',
  'operation-id': id,
  'x-content-type-options': 'nosniff',
})
const idOf = ({ headers }: Response): string => headers['operation-id'] ?? ''
const titled =
  (wanted: string) =>
  ({ title }: Exchange) =>
    title === wanted
const answersLike = (recorded: Response, before: Response): Response => ({
  ...before,
  headers: { ...before.headers, 'operation-id': idOf(recorded) },
})
const withEmptyTexts = ({ body, ...rest }: Response): Response => ({
  ...rest,
  body: body.replace('{', '{"description":"","metadata":"",'),
})
const refusedToday =
  (status: number, code: string, details: Record<string, string> = {}) =>
  (recorded: Response): Response => ({
    status,
    headers: usualHeaders(idOf(recorded)),
    body: JSON.stringify({
      error_code: code,
      status_code: status,
      msg: '…',
      details: { operation_id: idOf(recorded), ...details },
    }),
  })

export const differences: Difference[] = [
  {
    because: "the vendor's clients read texts that are not set",
    appliesTo: titled("create a policy as the vendor's client would"),
    today: withEmptyTexts,
  },
  {
    because: 'a repeated entry is named by its place',
    appliesTo: titled('restriction with a policy twice'),
    today: ({ body, ...rest }) => ({ ...rest, body: body.replace('"ip_policy_ids"', '"ip_policy_ids[1]"') }),
  },
  {
    because: 'routes can be listed',
    appliesTo: ({ request, response }) => response.status === 405 && request.endsWith('/routes'),
    today: ({ headers, ...rest }) => ({ ...rest, headers: { ...headers, allow: 'POST, GET, HEAD' } }),
  },
  {
    because: 'HEAD was 405; today it answers like GET, which it follows in the recording',
    appliesTo: ({ request }) => request.startsWith('HEAD '),
    today: (recorded, before) => ({ ...answersLike(recorded, before), body: '' }),
  },
  {
    because: 'HEAD is allowed where GET is',
    appliesTo: ({ response }) => response.headers.allow?.includes('GET') ?? false,
    today: ({ headers, ...rest }) => ({
      ...rest,
      headers: { ...headers, allow: headers.allow?.replace('GET', 'GET, HEAD') ?? '' },
    }),
  },
  {
    because: 'dashboard sessions must pass restrictions of type api too, so their addresses count',
    appliesTo: ({ title }) => title.startsWith('impact of a set of rules'),
    today: ({ body, ...rest }) => ({
      ...rest,
      body: body.replace('with a key of the account.', 'with a key of the account, in the dashboard or directly.'),
    }),
  },
  {
    because: 'the audit no longer stores whether a rule had expired, which depends on the clock',
    appliesTo: titled('all audit events'),
    today: ({ body, ...rest }) => ({ ...rest, body: body.replaceAll(/"expired":(?:true|false),/g, '') }),
  },
  {
    because:
      "the vendor's Python client sends empty values for arguments left out; the route stays as the GET before showed it",
    appliesTo: titled("a PATCH with empty values from the vendor's client"),
    today: (recorded, before) => withEmptyTexts(answersLike(recorded, before)),
  },
  {
    because: 'bots cannot sign in to the dashboard',
    appliesTo: titled('sign in as a bot'),
    today: refusedToday(403, 'ERR_FORBIDDEN'),
  },
  {
    because: 'wrong tokens from an address no longer keep valid ones from signing in there',
    appliesTo: titled('sign in with a valid token after many wrong ones'),
    today: (recorded) => ({
      status: 201,
      headers: {
        ...usualHeaders(idOf(recorded)),
        'set-cookie': '__Host-gatehouse_session={session_99}; Max-Age=43200; Path=/; HttpOnly; SameSite=Strict; Secure',
      },
      body: '{"id":"{ses_99}","created_at":"{time_998}","expires_at":"{time_999}","account_id":"{ac_1}","owner_id":"{usr_1}","role":"admin","api_key":{"id":"{ak_1}","uri":"https://api.gatehouse.test/api_keys/{ak_1}"},"source_ip":"198.51.100.1"}',
    }),
  },
  {
    because: 'after ten wrong tokens, one more is possible every six seconds, and the response describes the limit',
    appliesTo: titled('sign in with a wrong token, attempt 11'),
    today: ({ status, headers, body }) => ({
      status,
      headers: {
        ...headers,
        'retry-after': '6',
        ratelimit: '"failed-sign-in";r=0;t=6',
        'ratelimit-policy': '"failed-sign-in";q=10;w=60',
      },
      body: body.replace('"retry_after_seconds":"60"', '"retry_after_seconds":"6"'),
    }),
  },
  {
    because: 'a host name with everything under its wildcard belongs to one account',
    appliesTo: titled("a host name under another account's wildcard"),
    today: refusedToday(409, 'ERR_HOSTPORT_TAKEN', { field: 'hostports[0]' }),
  },
]
