import { type Static, type TObject, type TProperties, Type } from 'typebox'
import { corsFault, corsLimits } from '../kernel/edge/cors.ts'
import { filterLimits, filterModes, methodsFault, userAgentFault } from '../kernel/edge/filters.ts'
import { headerLimits } from '../kernel/edge/headers.ts'
import {
  connectionLimitKeys,
  rateLimitKeyFault,
  rateLimitKeyPattern,
  rateLimitModes,
  rateLimitMost,
} from '../kernel/edge/rate_limit.ts'
import { maxRedirectBytes, redirectFault, redirectStatuses } from '../kernel/edge/redirect.ts'
import { rewriteFault, rewriteLimits } from '../kernel/edge/rewrite.ts'

const Closed = <P extends TProperties>(properties: P): TObject<P> =>
  Type.Object(properties, { additionalProperties: false })

const Texts = (maxLength: number, maxItems: number) => Type.Array(Type.String({ maxLength }), { maxItems })

const Filter = (textBytes: number) => {
  const Entries = Texts(textBytes, filterLimits.entries)
  return Closed({ allow: Entries, deny: Entries, mode: Type.Enum([...filterModes]) })
}

const TextOrNull = (maxLength: number) => Type.Union([Type.String({ maxLength }), Type.Null()])

/** Divided among the nodes of the cell (CellNodesRecord). Missing: for each node. */
const OfCell = Type.Optional(Type.Literal('cell'))

/**
 * The modules of a route whose settings nodes receive as they are kept, in the order in which they act. A module that is absent
 * or disabled is missing from the record. Maps, parts of entries and tests come from this table.
 */
export const RouteModules = {
  user_agent_filter: Type.Optional(Type.Refine(Filter(filterLimits.textBytes), (filter) => !userAgentFault(filter))),
  cors: Type.Optional(
    Type.Refine(
      Closed({
        allowed_origins: Texts(corsLimits.originBytes, corsLimits.entries),
        allowed_methods: Texts(filterLimits.methodBytes, corsLimits.entries),
        allowed_headers: Texts(headerLimits.nameBytes, corsLimits.entries),
        exposed_headers: Texts(headerLimits.nameBytes, corsLimits.entries),
        max_age_seconds: Type.Integer({ minimum: 0, maximum: corsLimits.maxAgeSeconds }),
        allow_credentials: Type.Boolean(),
      }),
      (cors) => !corsFault(cors),
    ),
  ),
  methods: Type.Optional(Type.Refine(Filter(filterLimits.methodBytes), (filter) => !methodsFault(filter))),
  rate_limit: Type.Optional(
    Closed({
      requests: Type.Integer({ minimum: 1, maximum: rateLimitMost.requests }),
      per_seconds: Type.Integer({ minimum: 1, maximum: rateLimitMost.per_seconds }),
      key: Type.Refine(Type.String({ pattern: rateLimitKeyPattern }), (key) => !rateLimitKeyFault(key)),
      mode: Type.Enum([...rateLimitModes]),
      scope: OfCell,
    }),
  ),
  redirect: Type.Optional(
    Type.Refine(
      Closed({
        to: Type.String({ maxLength: maxRedirectBytes }),
        status_code: Type.Enum([...redirectStatuses]),
        keep_path: Type.Boolean(),
        keep_query: Type.Boolean(),
      }),
      (redirect) => !redirectFault(redirect),
    ),
  ),
  rewrite: Type.Optional(
    Type.Refine(
      Closed({
        strip_prefix: TextOrNull(rewriteLimits.prefixBytes),
        add_prefix: TextOrNull(rewriteLimits.prefixBytes),
        host: TextOrNull(rewriteLimits.hostBytes),
      }),
      (rewrite) => !rewriteFault(rewrite),
    ),
  ),
}

/** The limit that a TCP edge may have. */
export const ConnectionLimit = Type.Optional(
  Closed({
    connections: Type.Integer({ minimum: 1, maximum: rateLimitMost.requests }),
    per_seconds: Type.Integer({ minimum: 1, maximum: rateLimitMost.per_seconds }),
    key: Type.Enum([...connectionLimitKeys]),
    mode: Type.Enum([...rateLimitModes]),
    scope: OfCell,
  }),
)

export type RouteModuleName = keyof typeof RouteModules
export type RouteModuleSettings = { [Name in RouteModuleName]: Static<(typeof RouteModules)[Name]> }
export const routeModuleNames = Object.keys(RouteModules) as RouteModuleName[]
