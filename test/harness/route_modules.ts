import {
  type RouteModuleName,
  type RouteModuleSettings,
  routeModuleNames,
} from '../../src/distribution/route_modules.ts'
import type { ConnectionLimit } from '../../src/kernel/edge/rate_limit.ts'

type Sample<Settings> = {
  /** What has to be sent, and what the API shows of it. */
  least: object
  shown: object
  /** Every field, none with its default. */
  whole: object
  /** As a node receives it. */
  record: Settings
  /** Bodies that are refused, and the field that is named. */
  faults: [body: object, field: string][]
  /** Why a route has the field, for comparison with recorded answers from before there was one. */
  because: string
}

/** Each module whose settings are all there is to it. Tests of everything that has modules use these. */
export const moduleSamples: { [Name in RouteModuleName]: Sample<NonNullable<RouteModuleSettings[Name]>> } = {
  user_agent_filter: {
    least: { deny: ['curl/'] },
    shown: { allow: [], deny: ['curl/'], mode: 'enforce' },
    whole: { allow: ['Example App/'], deny: ['scrapy'], mode: 'warn' },
    record: { allow: ['Example App/'], deny: ['curl/'], mode: 'enforce' },
    faults: [
      [{}, 'allow'],
      [{ deny: [''] }, 'deny[0]'],
      [{ deny: ['ok', 'line\nend'] }, 'deny[1]'],
      [{ deny: ['\u00e4'] }, 'deny[0]'],
      [{ deny: ['x'.repeat(65)] }, 'deny[0]'],
      [{ allow: ['Curl', 'cURL'] }, 'allow[1]'],
      [{ deny: Array.from({ length: 31 }, (_, index) => `x${index}`) }, 'deny'],
      [{ deny: ['x'], mode: 'off' }, 'mode'],
    ],
    because: 'a route may refuse clients by their User-Agent',
  },
  cors: {
    least: { allowed_origins: ['https://app.example.com'] },
    shown: {
      allowed_origins: ['https://app.example.com'],
      allowed_methods: ['GET', 'HEAD', 'POST'],
      allowed_headers: [],
      exposed_headers: [],
      max_age_seconds: 600,
      allow_credentials: false,
    },
    whole: {
      allowed_origins: ['https://*.example.com', 'http://localhost:5173'],
      allowed_methods: ['GET', 'PUT'],
      allowed_headers: ['Authorization', 'X-Trace'],
      exposed_headers: ['X-Total'],
      max_age_seconds: 0,
      allow_credentials: true,
    },
    record: {
      allowed_origins: ['https://*.example.com', 'http://localhost:5173'],
      allowed_methods: ['GET', 'PUT'],
      allowed_headers: ['X-Trace'],
      exposed_headers: ['X-Total'],
      max_age_seconds: 60,
      allow_credentials: true,
    },
    faults: [
      [{}, 'allowed_origins'],
      [{ allowed_origins: [] }, 'allowed_origins'],
      [{ allowed_origins: ['https://a.example/'] }, 'allowed_origins[0]'],
      [{ allowed_origins: ['https://A.example'] }, 'allowed_origins[0]'],
      [{ allowed_origins: ['https://a.example:443'] }, 'allowed_origins[0]'],
      [{ allowed_origins: ['null'] }, 'allowed_origins[0]'],
      [{ allowed_origins: ['https://a.example\r\nX-B: b'] }, 'allowed_origins[0]'],
      [{ allowed_origins: ['https://*.com'] }, 'allowed_origins[0]'],
      [{ allowed_origins: ['https://*.co.uk'] }, 'allowed_origins[0]'],
      [{ allowed_origins: ['https://a.*.example'] }, 'allowed_origins[0]'],
      [{ allowed_origins: ['https://a.example', 'https://a.example'] }, 'allowed_origins[1]'],
      [{ allowed_origins: ['*', 'https://a.example'] }, 'allowed_origins'],
      [{ allowed_origins: ['*'], allow_credentials: true }, 'allow_credentials'],
      [{ allowed_origins: ['*'], allowed_methods: ['get'] }, 'allowed_methods[0]'],
      [{ allowed_origins: ['*'], allowed_headers: ['X A'] }, 'allowed_headers[0]'],
      [{ allowed_origins: ['*'], exposed_headers: ['X\r\nY'] }, 'exposed_headers[0]'],
      [{ allowed_origins: ['*'], max_age_seconds: 86_401 }, 'max_age_seconds'],
    ],
    because: 'a route may tell browsers which pages may read it',
  },
  methods: {
    least: { allow: ['GET'] },
    shown: { allow: ['GET'], deny: [], mode: 'enforce' },
    whole: { allow: ['GET', 'PURGE'], deny: ['DELETE'], mode: 'warn' },
    record: { allow: ['GET'], deny: ['DELETE'], mode: 'enforce' },
    faults: [
      [{}, 'allow'],
      [{ allow: ['get'] }, 'allow[0]'],
      [{ allow: ['GET', 'GET'] }, 'allow[1]'],
      [{ allow: ['GET', 'TRACE'] }, 'allow[1]'],
      [{ deny: ['A B'] }, 'deny[0]'],
      [{ deny: ['X'.repeat(33)] }, 'deny[0]'],
      [{ allow: ['GET'], mode: 'log' }, 'mode'],
    ],
    because: 'a route may accept only some methods',
  },
  rate_limit: {
    least: { requests: 100, per_seconds: 60 },
    shown: { requests: 100, per_seconds: 60, key: 'source', mode: 'enforce', scope: 'node' },
    whole: { requests: 10, per_seconds: 1, key: 'header:X-Api-Key', mode: 'warn', scope: 'cell' },
    record: { requests: 100, per_seconds: 60, key: 'header:X-Api-Key', mode: 'enforce', scope: 'cell' },
    faults: [
      [{ requests: 0, per_seconds: 60 }, 'requests'],
      [{ requests: 1, per_seconds: 3601 }, 'per_seconds'],
      ...['cookie', 'header:', 'header:X_Api_Key', `header:${'x'.repeat(65)}`, 'header:a|b', 'header:a\nb'].map(
        (key): [object, string] => [{ requests: 1, per_seconds: 1, key }, 'key'],
      ),
      // What clients say in these never counts, or is not there yet.
      ...['Host', 'TE', 'X-Forwarded-For', 'x-client-certificate-sha256', 'X-Request-Id'].map(
        (name): [object, string] => [{ requests: 1, per_seconds: 1, key: `header:${name}` }, 'key'],
      ),
      [{ requests: 1, per_seconds: 1, scope: 'account' }, 'scope'],
      [{ requests: 1 }, 'per_seconds'],
    ],
    because: 'a route may limit its requests',
  },
  redirect: {
    least: { to: 'https://new.example.com' },
    shown: { to: 'https://new.example.com', status_code: 308, keep_path: true, keep_query: true },
    whole: { to: 'https://other.example.com', status_code: 302, keep_path: false, keep_query: false },
    record: { to: 'https://new.example.com', status_code: 301, keep_path: true, keep_query: false },
    faults: [
      [{ to: 'javascript:alert(1)' }, 'to'],
      [{ to: 'https://a.example/\r\nX-B: b' }, 'to'],
      [{ to: 'https://a.example/?q' }, 'to'],
      [{ to: 'https://a.example', status_code: 200 }, 'status_code'],
      [{}, 'to'],
    ],
    because: 'a route may redirect',
  },
  rewrite: {
    least: { strip_prefix: '/api' },
    shown: { strip_prefix: '/api', add_prefix: null, host: null },
    whole: { strip_prefix: '/a/b', add_prefix: '/v1', host: 'inner.example:8080' },
    record: { strip_prefix: '/api', add_prefix: '/v1', host: 'inner.example' },
    faults: [
      [{}, 'strip_prefix'],
      [{ strip_prefix: '', host: '' }, 'strip_prefix'],
      [{ strip_prefix: 'api' }, 'strip_prefix'],
      [{ strip_prefix: '/api/' }, 'strip_prefix'],
      [{ add_prefix: '/a/../b' }, 'add_prefix'],
      [{ add_prefix: '//evil.example' }, 'add_prefix'],
      [{ add_prefix: '/a%2fb' }, 'add_prefix'],
      [{ add_prefix: `/${'x'.repeat(512)}` }, 'add_prefix'],
      [{ host: 'a\r\nX-B: b' }, 'host'],
      [{ host: 'https://a.example' }, 'host'],
    ],
    because: 'a route may rewrite paths',
  },
}

/** The same for a TCP edge, which has connections. */
export const connectionLimitSample = {
  least: { connections: 100, per_seconds: 60 },
  shown: { connections: 100, per_seconds: 60, key: 'source', mode: 'enforce', scope: 'node' },
  whole: { connections: 10, per_seconds: 1, key: 'edge', mode: 'warn', scope: 'cell' },
  record: { connections: 100, per_seconds: 60, key: 'source', mode: 'enforce', scope: 'cell' },
  faults: [
    [{ connections: 0, per_seconds: 60 }, 'connections'],
    [{ connections: 1, per_seconds: 3601 }, 'per_seconds'],
    [{ connections: 1, per_seconds: 1, key: 'route' }, 'key'],
    [{ per_seconds: 1 }, 'connections'],
    [{ connections: 1, per_seconds: 1, scope: 'account' }, 'scope'],
  ],
} as const satisfies Omit<Sample<ConnectionLimit>, 'because' | 'faults'> & {
  faults: readonly (readonly [object, string])[]
}

/** The same of every module, by its name. */
export const ofModules = <Value>(
  of: (sample: (typeof moduleSamples)[RouteModuleName], name: RouteModuleName) => Value,
): Record<RouteModuleName, Value> =>
  Object.fromEntries(routeModuleNames.map((name) => [name, of(moduleSamples[name], name)])) as Record<
    RouteModuleName,
    Value
  >
