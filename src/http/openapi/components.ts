import type { Json } from './json.ts'

/** What operations share besides schemas and error responses. */
export const sharedComponents = {
  securitySchemes: {
    apiKey: { type: 'http', scheme: 'bearer', description: 'The token of an API key.' },
    dashboardSession: {
      type: 'apiKey',
      in: 'cookie',
      name: '__Host-gatehouse_session',
      description:
        'Set by `POST /dashboard_session`; without `__Host-` where the public URL is not https. A token that is sent with it wins.',
    },
  },
  parameters: {
    ServiceVersion: {
      name: 'Service-Version',
      in: 'header',
      required: true,
      schema: { type: 'string', enum: ['2'] },
      example: '2',
    },
    IfMatch: {
      name: 'If-Match',
      in: 'header',
      description: 'ETags of what you last read, or `*`. If it is in none of these states any more: 412.',
      schema: { type: 'string' },
    },
    IdempotencyKey: {
      name: 'Idempotency-Key',
      in: 'header',
      description:
        'Makes it happen once: the same request with the same key is answered with what was created then, for 24 hours.',
      schema: { type: 'string', pattern: '^[\\x21-\\x7e]{1,255}$' },
    },
  },
  headers: {
    OperationId: {
      description: 'Names this request in the log and the audit.',
      required: true,
      schema: { type: 'string' },
    },
    ServiceWarning: {
      description:
        'What would have been refused, or is not told again: `ip_restriction=ipx_…`, `token=told_once`. Comma-separated.',
      schema: { type: 'string' },
    },
    ETag: {
      description: 'A strong tag of what is shown, for If-Match.',
      required: true,
      schema: { type: 'string' },
    },
    ServiceGeneration: {
      description: 'The number under which edges are told of the change. Not there when they need not be.',
      schema: { type: 'string', pattern: '^[0-9]+$' },
    },
    ServiceApplied: {
      description: 'With `wait=applied`: on how many of the live edge nodes the change is in force, such as 3/3.',
      schema: { type: 'string', pattern: '^[0-9]+/[0-9]+$' },
    },
    ServiceBehind: {
      description: 'With `wait=applied`: the names of the live edge nodes on which it is not.',
      schema: { type: 'string' },
    },
    SetCookie: {
      description: 'The session cookie: HttpOnly, SameSite=Strict, and Secure where the public URL is https.',
      required: true,
      schema: { type: 'string' },
    },
    IdempotencyReplayed: {
      description: '`true` when this is a repetition, and nothing was created now.',
      schema: { type: 'string', enum: ['true'] },
    },
  },
} as const satisfies Record<string, Json>

export const header = (name: string): Json => ({ [name]: { $ref: `#/components/headers/${name.replaceAll('-', '')}` } })
export const commonHeaders: Json = { ...header('Operation-Id'), ...header('Service-Warning') }
