import type { Json } from './json.ts'

/** Components that operations share besides schemas and error responses. */
export const sharedComponents = {
  securitySchemes: {
    apiKey: { type: 'http', scheme: 'bearer', description: 'The token of an API key.' },
    // Declared as a security scheme although it is no secret: as a parameter, generated clients required it in every
    // call.
    serviceVersion: {
      type: 'apiKey',
      in: 'header',
      name: 'Service-Version',
      description: 'The version of the API. Required with every request, and always `2`. Set it once, in the client.',
    },
    dashboardSession: {
      type: 'apiKey',
      in: 'cookie',
      name: '__Host-gatehouse_session',
      description:
        'Set by `POST /dashboard_session`. Without the `__Host-` prefix when the public URL is not https. If the request also has a bearer token, the token is used.',
    },
  },
  parameters: {
    IfMatch: {
      name: 'If-Match',
      in: 'header',
      description: 'ETags from your last read, or `*`. If none of them is current, the response is 412.',
      schema: { type: 'string' },
    },
    IfNoneMatch: {
      name: 'If-None-Match',
      in: 'header',
      description: 'ETags that you have, or `*`. If one of them is current, the response is 304 without a body.',
      schema: { type: 'string' },
    },
    ServiceReason: {
      name: 'Service-Reason',
      in: 'header',
      description:
        'Why the change is made without approval, or without a watch. Required with `break_glass=true` and `rollout=urgent`; the audit has it.',
      schema: { type: 'string', pattern: '^[\\x20-\\x7e]{1,255}$' },
    },
    IdempotencyKey: {
      name: 'Idempotency-Key',
      in: 'header',
      description:
        'Makes retries safe. For 24 hours, repeating the same request with the same key returns the resource created by the first one.',
      schema: { type: 'string', pattern: '^[\\x21-\\x7e]{1,255}$' },
    },
  },
  headers: {
    OperationId: {
      description: 'Identifies this request in the log and in audit events.',
      required: true,
      schema: { type: 'string' },
    },
    ServiceWarning: {
      description:
        'Comma-separated warnings. `ip_restriction=ipx_…`: this restriction would have refused the request if it were enforced. `token=told_once`, `link=told_once`: the token or link was returned by an earlier response and is not repeated.',
      schema: { type: 'string' },
    },
    RateLimitPolicy: {
      description: 'The limit that the request came under: requests (`q`) in a time window of seconds (`w`).',
      schema: { type: 'string' },
    },
    RateLimit: {
      description:
        'Requests that are left (`r`), and the seconds (`t`) until all are there again; with 429, until the next one is allowed.',
      schema: { type: 'string' },
    },
    RetryAfter: {
      description: 'Seconds to wait before the next request.',
      required: true,
      schema: { type: 'string', pattern: '^[0-9]+$' },
    },
    ETag: {
      description: 'Strong entity tag of the resource, for If-Match and If-None-Match.',
      required: true,
      schema: { type: 'string' },
    },
    Location: {
      description: 'URI of the created resource: the same as its `uri`.',
      required: true,
      schema: { type: 'string', format: 'uri' },
    },
    ServiceGeneration: {
      description:
        'Generation of the change, for `GET /generations/{generation}`. Omitted when the change does not concern edge nodes.',
      schema: { type: 'string', pattern: '^[0-9]+$' },
    },
    ServiceApplied: {
      description: 'With `wait`: how many of the live edge nodes have applied the change, such as 3/3.',
      schema: { type: 'string', pattern: '^[0-9]+/[0-9]+$' },
    },
    ServiceBehind: {
      description: 'With `wait`: names of the live edge nodes that have not applied it yet.',
      schema: { type: 'string' },
    },
    ServiceTakesAlong: {
      description: 'With `rollout=urgent`: ids of the rollouts of earlier changes that reach all waves with this one.',
      schema: { type: 'string' },
    },
    SetCookie: {
      description: 'Session cookie: HttpOnly, SameSite=Strict, and Secure when the public URL is https.',
      required: true,
      schema: { type: 'string' },
    },
    IdempotencyReplayed: {
      description: '`true` when the response repeats an earlier one and nothing new was created.',
      schema: { type: 'string', enum: ['true'] },
    },
  },
} as const satisfies Record<string, Json>

/** The version accompanies both ways to authenticate, and is sent alone if the body contains the credentials. */
export const security = [
  { apiKey: [], serviceVersion: [] },
  { dashboardSession: [], serviceVersion: [] },
]
export const securityOfSignIn = [{ serviceVersion: [] }]

export const header = (name: string): Json => ({ [name]: { $ref: `#/components/headers/${name.replaceAll('-', '')}` } })
export const commonHeaders: Json = {
  ...header('Operation-Id'),
  ...header('Service-Warning'),
  ...header('RateLimit-Policy'),
  ...header('RateLimit'),
}
