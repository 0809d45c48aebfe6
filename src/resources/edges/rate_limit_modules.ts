import { Type } from 'typebox'
import {
  type ConnectionLimit,
  connectionLimitKeys,
  headerValuesOfSource,
  type RateLimit,
  rateLimitDefaults,
  rateLimitKeyFault,
  rateLimitKeyPattern,
  rateLimitModes,
  rateLimitMost,
  rateLimitScopes,
} from '../../kernel/edge/rate_limit.ts'
import { invalidField } from '../../kernel/errors.ts'
import { define } from './module.ts'

const PerSeconds = Type.Integer({
  minimum: 1,
  maximum: rateLimitMost.per_seconds,
  examples: [60],
  description: 'The length of a window. Windows begin at multiples of it.',
})
type Scope = (typeof rateLimitScopes)[number]
const Scope = Type.Unsafe<Scope>({
  type: 'string',
  enum: [...rateLimitScopes],
  'x-default': rateLimitDefaults.scope,
  description:
    'With `node`, each edge node allows as much: a client that reaches two nodes gets twice the limit. With `cell`, each node allows the limit divided by `counted_nodes` of its cell (`GET /cells`), rounded down, and at least 1.',
})
const storedScope = (scope: Scope | undefined) => (scope === 'cell' ? { scope } : {})
/** Stored as sent to nodes: `scope` is present only for `cell`. */
const shown = <Limit extends { scope?: 'cell' }>(limit: Limit) => ({
  ...limit,
  scope: limit.scope ?? ('node' as const),
})
const Mode = (description: string) =>
  Type.Unsafe<RateLimit['mode']>({
    type: 'string',
    enum: [...rateLimitModes],
    'x-default': rateLimitDefaults.mode,
    description,
  })

const fields = {
  requests: Type.Integer({
    minimum: 1,
    maximum: rateLimitMost.requests,
    examples: [100],
    description: 'How many requests are let through in each window.',
  }),
  per_seconds: PerSeconds,
  key: Type.String({
    pattern: rateLimitKeyPattern,
    examples: ['header:X-Api-Key'],
    'x-default': rateLimitDefaults.key,
    description: `What is counted: the requests of each \`source\` address (of each /64 for IPv6), of all clients of the \`route\` together, or those with each value of a header: \`header:X-Api-Key\`. Requests in which that header is missing, empty or there twice count for their address, and so do those with more than ${headerValuesOfSource} values that an address brings in a window.`,
  }),
  mode: Mode('With `enforce`, requests beyond the limit get 429. With `warn` they pass and are recorded as warned.'),
  scope: Scope,
}

export const rateLimitModule = define({
  title: 'RateLimitModule',
  on: ['route'],
  body: {
    requests: fields.requests,
    per_seconds: fields.per_seconds,
    key: Type.Optional(fields.key),
    mode: Type.Optional(fields.mode),
    scope: Type.Optional(fields.scope),
  },
  shape: fields,
  check({ key }, prefix) {
    const fault = key === undefined ? undefined : rateLimitKeyFault(key)
    if (fault) throw invalidField(`${prefix}key`, fault)
  },
  toStored: ({ requests, per_seconds, key, mode, scope }) => ({
    settings: {
      requests,
      per_seconds,
      key: key ?? rateLimitDefaults.key,
      mode: mode ?? rateLimitDefaults.mode,
      ...storedScope(scope),
    } satisfies RateLimit,
  }),
  show: ({ settings }) => shown(settings as RateLimit),
})

const connectionFields = {
  connections: Type.Integer({
    minimum: 1,
    maximum: rateLimitMost.requests,
    examples: [100],
    description: 'How many connections are let through in each window.',
  }),
  per_seconds: PerSeconds,
  key: Type.Unsafe<ConnectionLimit['key']>({
    type: 'string',
    enum: [...connectionLimitKeys],
    'x-default': rateLimitDefaults.key,
    description:
      'What is counted: the connections of each `source` address (of each /64 for IPv6), or of all clients of the `edge` together.',
  }),
  mode: Mode(
    'With `enforce`, connections beyond the limit are closed before the upstream is dialed. With `warn` they pass and are recorded as warned.',
  ),
  scope: Scope,
}

export const connectionLimitModule = define({
  title: 'ConnectionLimitModule',
  on: ['tcp'],
  body: {
    connections: connectionFields.connections,
    per_seconds: connectionFields.per_seconds,
    key: Type.Optional(connectionFields.key),
    mode: Type.Optional(connectionFields.mode),
    scope: Type.Optional(connectionFields.scope),
  },
  shape: connectionFields,
  toStored: ({ connections, per_seconds, key, mode, scope }) => ({
    settings: {
      connections,
      per_seconds,
      key: key ?? rateLimitDefaults.key,
      mode: mode ?? rateLimitDefaults.mode,
      ...storedScope(scope),
    } satisfies ConnectionLimit,
  }),
  show: ({ settings }) => shown(settings as ConnectionLimit),
})
