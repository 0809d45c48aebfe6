import { type Static, type TObject, type TProperties, type TSchema, Type } from 'typebox'
import { testedPathPattern } from '../kernel/edge/paths.ts'
import { type IdPrefix, type Id as IdText, idPattern, oneOf } from '../kernel/ids.ts'

/**
 * The building blocks of every wire shape: plain JSON Schema with types. `title` makes a shape a named component
 * of openapi.json; `x-must` is the error message when a pattern does not match; `x-maxBytes` counts UTF-8 bytes;
 * `x-default` is the value of an omitted field on create; `x-documented` has keywords for openapi.json alone, of rules
 * that the route's `check` enforces with a better message; `x-vendor` has fields that only the vendor's clients get;
 * `x-setBy` names the field that makes the service choose this one.
 */
export const Closed = <P extends TProperties>(
  properties: P,
  options: { title?: string; description?: string; 'x-documented'?: object; 'x-vendor'?: object } = {},
): TObject<P> => Type.Object(properties, { ...options, additionalProperties: false })

export const Id = <P extends IdPrefix>(...prefixes: P[]) =>
  Type.Unsafe<IdText<P>>({
    type: 'string',
    pattern: prefixes.map(idPattern).join('|'),
    'x-must': `must be the id of ${prefixes.map((prefix) => `${oneOf(prefix)} (${prefix}_…)`).join(' or ')}`,
  })

/** A response field that changes by itself, such as the time of last use. */
export const Volatile = <S extends TSchema>(schema: S) => Type.Unsafe<Static<S>>({ ...schema, 'x-volatile': true })
/** A secret that only create and rotate return; null elsewhere. */
export const ShownOnce = (description: string) =>
  Type.Unsafe<string | null>({ type: ['string', 'null'], description, 'x-shownOnce': true })

export const Timestamp = Type.String({ format: 'date-time', description: 'RFC 3339 in UTC, with milliseconds.' })
export const TimestampOrNull = (description: string) =>
  Type.Unsafe<string | null>({ type: ['string', 'null'], format: 'date-time', description })
/** A timestamp in a request. Null clears it. */
export const Moment = (description: string) =>
  Type.Optional(
    Type.Unsafe<string | null>({
      type: ['string', 'null'],
      format: 'date-time',
      'x-maxBytes': 40,
      'x-moment': true,
      examples: ['2030-01-31T12:00:00Z'],
      description,
    }),
  )
/** A timestamp in a query. */
export const QueryMoment = (description: string) =>
  Type.Optional(
    Type.String({
      format: 'date-time',
      'x-maxBytes': 40,
      'x-moment': true,
      description,
      examples: ['2030-01-31T12:00:00Z'],
    }),
  )
export const Uri = Type.String({ format: 'uri', description: 'Absolute URI under the public URL of the installation.' })

export const Text = (maxBytes: number, description: string, example?: string) =>
  Type.String({ 'x-maxBytes': maxBytes, description, ...(example && { examples: [example] }) })
/** Bounded text in a request. `""` and `null` both clear it. */
export const OptionalText = (maxBytes: number, description: string, example?: string) =>
  Type.Optional(
    Type.Unsafe<string | null>({
      type: ['string', 'null'],
      'x-maxBytes': maxBytes,
      description,
      ...(example && { examples: [example] }),
    }),
  )

const part = '[a-z_]+'
/** `*`, an operation, or an operation whose first (`*.get`) or last part (`api_keys.*`) is `*`. */
export const OperationPattern = Type.Unsafe<string>({
  type: 'string',
  pattern: `^(?:\\*|\\*(?:\\.${part})+|${part}(?:\\.${part})*(?:\\.\\*)?)$`,
  'x-must': 'must be *, an operation such as api_keys.list, or a pattern such as api_keys.* or *.list',
  'x-maxBytes': 100,
})

/** Optional annotations of most resources. Requests may set either to null; responses omit unset ones. */
export const Annotations = {
  description: OptionalText(255, 'Human-readable description. At most 255 bytes.', 'the staging environment'),
  metadata: OptionalText(4096, 'Arbitrary user-defined data. At most 4096 bytes.'),
}
export const AnnotationsShown = {
  description: Type.Optional(Text(255, 'Omitted when not set.')),
  metadata: Type.Optional(Text(4096, 'Omitted when not set.')),
}

/** A body may repeat an id of its path, as generated clients do. */
export const PathId = <P extends IdPrefix>(prefix: P) => Type.Optional(Id(prefix))

/** Query of changes that concern edges. */
export const EdgeChangeQuery = {
  wait: Type.Optional(
    Type.Unsafe<'applied' | 'released'>({
      type: 'string',
      enum: ['applied', 'released'],
      description:
        'applied: wait until every live edge node that gets changes first has applied the change, for at most 10 seconds. released: until those of all waves have, for at most 2 minutes; it ends early if the change is halted, and at once if ten requests of the account wait already. Service-Applied says how many have, and Service-Behind names the others.',
    }),
  ),
  rollout: Type.Optional(
    Type.Unsafe<'urgent'>({
      type: 'string',
      enum: ['urgent'],
      description:
        'Where nodes have waves: give the change to all of them once the first have applied it, even if requests fail then. Everything that the account has on its way comes along; Service-Takes-Along names it. Only for admins, with the reason in the header `Service-Reason`. The audit has an event for it.',
    }),
  ),
}

/** Query of every change. */
export const DryRun = Type.Optional(
  Type.Boolean({
    description:
      'Check and make the change, undo it, and return what it would have done: 200 with a DryRunResult, or the error that the change would get. Nothing is changed.',
  }),
)

/** Query of changes that can need the approval of another admin. */
export const BreakGlass = Type.Optional(
  Type.Boolean({
    description:
      'Make the change without the approval that it needs. Only for admins, with the reason in the header `Service-Reason`. The audit has an event for it.',
  }),
)

/** What an access test checks. */
export const AccessTestTarget = Closed(
  {
    type: Type.Unsafe<'api' | 'dashboard' | 'edge' | 'route'>({
      type: 'string',
      enum: ['api', 'dashboard', 'edge', 'route'],
      description: 'This API, the dashboard, a TCP edge, or a path of an HTTPS edge.',
      examples: ['api'],
    }),
    edge_id: Type.Optional(
      Type.Unsafe<IdText<'edgtcp'>>({ ...Id('edgtcp'), description: 'The TCP edge. Only with type `edge`.' }),
    ),
    route_id: Type.Optional(
      Type.Unsafe<IdText<'edghtsrt'>>({
        ...Id('edghtsrt'),
        description: 'A route of the HTTPS edge. Only with type `route`.',
      }),
    ),
    path: Type.Optional(
      Type.String({
        'x-maxBytes': 1024,
        pattern: testedPathPattern,
        'x-must':
          'must be a path in its plain spelling: without percent-encoding, parameters, a query, empty segments, and segments that begin or end with a dot',
        description:
          'The path of the request. Only with type `route`. The route of the edge that the path belongs to decides, which another change may make a different one.',
      }),
    ),
  },
  { title: 'AccessTestTarget' },
)
export const AccessOutcome = Type.Unsafe<'allowed' | 'refused'>({
  type: 'string',
  enum: ['allowed', 'refused'],
  examples: ['allowed'],
})

export const Ref = Closed({ id: Type.String(), uri: Uri }, { title: 'Ref' })
export const RefOrNull = Type.Unsafe<Static<typeof Ref> | null>({ anyOf: [Ref, { type: 'null' }] })

export const PageParameters = {
  limit: Type.Optional(
    Type.Integer({ minimum: 1, maximum: 100, description: 'Maximum number of results. Default: 100.' }),
  ),
}
export const BeforeId = <P extends IdPrefix>(prefix: P) =>
  Type.Optional(
    Type.Unsafe<IdText<P>>({
      ...Id(prefix),
      description: 'Return only resources older than this id. The resource with this id may have been deleted.',
    }),
  )

/** Restricts a list to items with this value. */
export const Filter = <S extends TSchema>(schema: S, description: string) =>
  Type.Optional(Type.Unsafe<Static<S>>({ ...schema, description }))

export const ListOf = <Name extends string, Item extends TSchema>(name: Name, item: Item & { title?: string }) =>
  Closed(
    { [name]: Type.Array(item), uri: Uri, next_page_uri: Type.Unsafe<string | null>({ type: ['string', 'null'] }) } as {
      [K in Name]: ReturnType<typeof Type.Array<Item>>
    } & { uri: typeof Uri; next_page_uri: ReturnType<typeof Type.Unsafe<string | null>> },
    { title: `${item.title}List` },
  )

export type { Static }
