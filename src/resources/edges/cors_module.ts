import { Type } from 'typebox'
import {
  type Cors,
  corsDefaults,
  corsFault,
  corsHeaderPattern,
  corsLimits,
  corsMethodPattern,
  originPattern,
  parentOf,
} from '../../kernel/edge/cors.ts'
import { headerLimits } from '../../kernel/edge/headers.ts'
import { invalidField } from '../../kernel/errors.ts'
import { define } from './module.ts'
import { isSharedDomain } from './public_suffix.ts'

const List = (pattern: string, maxLength: number, examples: string[], description: string, byDefault?: string[]) =>
  Type.Array(Type.String({ pattern, maxLength }), {
    maxItems: corsLimits.entries,
    examples: [examples],
    description: `${description} At most ${corsLimits.entries}.`,
    ...(byDefault && { 'x-default': byDefault }),
  })

const fields = {
  allowed_origins: List(
    originPattern,
    corsLimits.originBytes,
    ['https://app.example.com'],
    'Origins whose pages may read responses: exact ones, `https://*.example.com` for one more label, or `*` alone for all.',
  ),
  allowed_methods: List(
    corsMethodPattern,
    32,
    ['GET', 'PUT'],
    'Methods that such pages may use. Browsers allow GET, HEAD and POST in any case. `*` allows all.',
    corsDefaults.allowed_methods,
  ),
  allowed_headers: List(
    corsHeaderPattern,
    headerLimits.nameBytes,
    ['Content-Type', 'Authorization'],
    'Request headers that such pages may set. `*` allows all but Authorization.',
    corsDefaults.allowed_headers,
  ),
  exposed_headers: List(
    corsHeaderPattern,
    headerLimits.nameBytes,
    ['X-Total'],
    'Response headers that such pages may read, beside the few that all may. `*` exposes all.',
    corsDefaults.exposed_headers,
  ),
  max_age_seconds: Type.Integer({
    minimum: 0,
    maximum: corsLimits.maxAgeSeconds,
    examples: [600],
    'x-default': corsDefaults.max_age_seconds,
    description: 'How long a browser may remember the answer to a preflight. Browsers have limits of their own.',
  }),
  allow_credentials: Type.Boolean({
    'x-default': corsDefaults.allow_credentials,
    description: 'Whether such pages may send cookies. Not together with `*` in a list.',
  }),
}

export const corsModule = define({
  title: 'CorsModule',
  on: ['route'],
  body: {
    allowed_origins: fields.allowed_origins,
    allowed_methods: Type.Optional(fields.allowed_methods),
    allowed_headers: Type.Optional(fields.allowed_headers),
    exposed_headers: Type.Optional(fields.exposed_headers),
    max_age_seconds: Type.Optional(fields.max_age_seconds),
    allow_credentials: Type.Optional(fields.allow_credentials),
  },
  shape: fields,
  check(body, prefix) {
    const found = corsFault({ ...corsDefaults, ...body })
    if (found) throw invalidField(prefix + found.place, found.fault)
    for (const [index, origin] of body.allowed_origins.entries()) {
      const parent = parentOf(origin)
      if (parent && isSharedDomain(parent))
        throw invalidField(
          `${prefix}allowed_origins[${index}]`,
          `must not have a wildcard under ${parent}, where names belong to different people`,
        )
    }
  },
  toStored: ({
    allowed_origins,
    allowed_methods = corsDefaults.allowed_methods,
    allowed_headers = corsDefaults.allowed_headers,
    exposed_headers = corsDefaults.exposed_headers,
    max_age_seconds = corsDefaults.max_age_seconds,
    allow_credentials = corsDefaults.allow_credentials,
  }) => ({
    settings: {
      allowed_origins,
      allowed_methods,
      allowed_headers,
      exposed_headers,
      max_age_seconds,
      allow_credentials,
    } satisfies Cors,
  }),
  show: ({ settings }) => settings as Cors,
})
