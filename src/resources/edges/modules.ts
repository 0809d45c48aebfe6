import { Type } from 'typebox'
import { defaultMode, type ModuleMode, modeOf, moduleModes } from '../../access/module_mode.ts'
import { Id, Ref } from '../../http/wire.ts'
import { backendPrefixes } from '../../kernel/edge/backends.ts'
import {
  type Filter,
  filterDefaults,
  filterLimits,
  filterModes,
  methodPattern,
  methodsFault,
  userAgentFault,
  userAgentPattern,
} from '../../kernel/edge/filters.ts'
import {
  type HeaderOperations,
  headerLimits,
  headerSchemas,
  headersFault,
  type Message,
  mangledNameFault,
} from '../../kernel/edge/headers.ts'
import {
  maxRedirectBytes,
  type Redirect,
  redirectDefaults,
  redirectFault,
  redirectStatuses,
} from '../../kernel/edge/redirect.ts'
import { type Rewrite, rewriteFault, rewriteLimits } from '../../kernel/edge/rewrite.ts'
import { invalidField } from '../../kernel/errors.ts'
import { toId } from '../../kernel/ids.ts'
import { canRespond } from '../backends/group_store.ts'
import { holdBackends } from '../backends/store.ts'
import { backendRef } from '../backends/view.ts'
import { IpPolicyIds } from '../ip_policies/schema.ts'
import { holdIpPolicies } from '../ip_policies/store.ts'
import { corsModule } from './cors_module.ts'
import { define, type EdgeKind, type Module } from './module.ts'
import { mutualTlsModule } from './mutual_tls_module.ts'
import { connectionLimitModule, rateLimitModule } from './rate_limit_modules.ts'

const HeaderMap = (options: object = {}) =>
  Type.Unsafe<Record<string, string>>({ type: 'object', additionalProperties: { type: 'string' }, ...options })

const headersModule = (
  message: Message,
  { title, examples, ...described }: { title: string; add: string; remove: string; examples: HeaderOperations },
) =>
  define({
    title,
    on: ['route'],
    body: {
      add: Type.Optional(
        HeaderMap({
          description: `${described.add} At most ${headerLimits.entries}.`,
          examples: [examples.add],
          'x-default': {},
          'x-documented': headerSchemas.map,
        }),
      ),
      remove: Type.Optional(
        Type.Array(Type.String(), {
          examples: [examples.remove],
          description: `${described.remove} At most ${headerLimits.entries}.`,
          'x-default': [],
          'x-documented': headerSchemas.names,
        }),
      ),
    },
    shape: { add: HeaderMap(), remove: Type.Array(Type.String()) },
    check({ add = {}, remove = [] }, prefix, isVendorClient) {
      const found = headersFault({ add, remove }, message) ?? (isVendorClient ? mangledNameFault(add) : undefined)
      if (found) throw invalidField(prefix + found.place, found.fault)
    },
    toStored: ({ add = {}, remove = [] }) => ({ settings: { add, remove } satisfies HeaderOperations }),
    show: ({ settings }) => settings as { add: Record<string, string>; remove: string[] },
  })

const filterModule = (described: {
  title: string
  pattern: string
  fault: (filter: Filter) => { place: string; fault: string } | undefined
  allow: string
  deny: string
  answer: string
  examples: { allow: string[]; deny: string[] }
}) => {
  const { title, pattern, fault, answer, examples } = described
  const Entries = (list: 'allow' | 'deny') =>
    Type.Array(Type.String({ pattern }), {
      maxItems: filterLimits.entries,
      examples: [examples[list]],
      description: `${described[list]} At most ${filterLimits.entries}.`,
      'x-default': [],
    })
  const fields = {
    allow: Entries('allow'),
    deny: Entries('deny'),
    mode: Type.Unsafe<Filter['mode']>({
      type: 'string',
      enum: [...filterModes],
      'x-default': filterDefaults.mode,
      description: `With \`enforce\`, other requests get ${answer}. With \`warn\` they pass and are recorded as warned.`,
    }),
  }
  return define({
    title,
    on: ['route'],
    body: {
      allow: Type.Optional(fields.allow),
      deny: Type.Optional(fields.deny),
      mode: Type.Optional(fields.mode),
    },
    shape: fields,
    check(body, prefix) {
      const found = fault({ ...filterDefaults, ...body })
      if (found) throw invalidField(prefix + found.place, found.fault)
    },
    toStored: ({ allow = [], deny = [], mode = filterDefaults.mode }) => ({
      settings: { allow, deny, mode } satisfies Filter,
    }),
    show: ({ settings }) => settings as Filter,
  })
}

const IpRestrictionModeField = Type.Unsafe<ModuleMode>({
  type: 'string',
  enum: [...moduleModes],
  'x-default': defaultMode,
  description:
    'With `enforce`, addresses that the policies do not allow are refused. With `warn` they are let in and recorded as warned.',
})

const redirectFields = {
  to: Type.Unsafe<string>({
    type: 'string',
    'x-maxBytes': maxRedirectBytes,
    examples: ['https://new.example.com'],
    description: 'Where to: an http or https URL. A query is allowed if neither path nor query are kept.',
  }),
  status_code: Type.Unsafe<Redirect['status_code']>({
    type: 'integer',
    enum: [...redirectStatuses],
    'x-default': redirectDefaults.status_code,
    description: 'Clients repeat the method and body after 307 and 308. Browsers remember 301 and 308.',
  }),
  keep_path: Type.Boolean({
    'x-default': redirectDefaults.keep_path,
    description: "Whether the request's path is appended to that of `to`.",
  }),
  keep_query: Type.Boolean({
    'x-default': redirectDefaults.keep_query,
    description: "Whether the request's query is appended.",
  }),
}

const RewriteText = (maxBytes: number, description: string, example: string) =>
  Type.Unsafe<string | null>({
    type: ['string', 'null'],
    'x-maxBytes': maxBytes,
    'x-default': null,
    description,
    examples: [example],
  })
const rewriteFields = {
  strip_prefix: RewriteText(
    rewriteLimits.prefixBytes,
    'What is removed from the beginning of the path, if it is there in whole segments.',
    '/api',
  ),
  add_prefix: RewriteText(rewriteLimits.prefixBytes, 'What is put in front of the path after that.', '/v1'),
  host: RewriteText(
    rewriteLimits.hostBytes,
    'The Host header that the upstream gets, unless `request_headers` sets another.',
    'app.internal.example',
  ),
}

/** Treats an empty string as null. */
const rewriteOf = ({ strip_prefix, add_prefix, host }: Partial<Rewrite>): Rewrite => ({
  strip_prefix: strip_prefix || null,
  add_prefix: add_prefix || null,
  host: host || null,
})

/**
 * All modules. Paths, place in edges and routes, storage, audit and records derive from this table, so a new module
 * needs only a row here and its tests.
 */
export const modules = {
  backend: define({
    title: 'BackendModule',
    on: ['tcp', 'route'],
    body: { backend_id: Id(...backendPrefixes) },
    shape: { backend_id: Id(...backendPrefixes), backend: Ref },
    toStored: ({ backend_id }) => ({ backendId: backend_id }),
    async hold(tx, caller, { backendId }, prefix, on) {
      if (!backendId) return
      const field = `${prefix}backend_id`
      await holdBackends(tx, caller, [backendId], () => field)
      if (on === 'tcp' && (await canRespond(tx, caller, backendId)))
        throw invalidField(field, 'must not be an HTTP response backend or end in one, because TCP edges send no HTTP')
    },
    show({ backend_id, backend_kind }, uri) {
      if (!backend_id || !backend_kind) throw new Error('a backend module has no backend')
      const backend = backendRef(backend_kind, backend_id, uri)
      return { backend_id: backend.id, backend }
    },
  }),

  ip_restriction: define({
    title: 'IpRestrictionModule',
    on: ['tcp', 'route'],
    body: { ip_policy_ids: IpPolicyIds, mode: Type.Optional(IpRestrictionModeField) },
    shape: {
      mode: IpRestrictionModeField,
      ip_policy_ids: Type.Array(Id('ipp'), { description: 'In the order they were sent.' }),
      ip_policies: Type.Array(Ref, { description: 'The same policies as references.' }),
    },
    toStored: ({ ip_policy_ids, mode = defaultMode }) => ({ policyIds: ip_policy_ids, settings: { mode } }),
    hold: (tx, caller, { policyIds }, prefix) => holdIpPolicies(tx, caller, policyIds, prefix),
    show(stored, uri) {
      const ids = stored.policy_ids.map((uuid) => toId('ipp', uuid))
      return {
        mode: modeOf(stored),
        ip_policy_ids: ids,
        ip_policies: ids.map((id) => ({ id, uri: uri(`/ip_policies/${id}`) })),
      }
    },
  }),

  request_headers: headersModule('request', {
    title: 'RequestHeadersModule',
    add: 'Headers to set on the request before it is forwarded, by name. They replace those the client sent.',
    remove: 'Names of headers to remove before the request is forwarded.',
    examples: { add: { 'X-From-The-Edge': 'gatehouse' }, remove: ['Cookie'] },
  }),

  response_headers: headersModule('response', {
    title: 'ResponseHeadersModule',
    add: "Headers to set on the response before it is sent to the client, by name. They replace the upstream's, except Set-Cookie, which is added to them.",
    remove: 'Names of headers to remove from the response before it is sent to the client.',
    examples: { add: { 'Strict-Transport-Security': 'max-age=31536000' }, remove: ['X-Powered-By'] },
  }),

  user_agent_filter: filterModule({
    title: 'UserAgentFilterModule',
    pattern: userAgentPattern,
    fault: userAgentFault,
    allow: 'Only requests whose User-Agent header contains one of these texts pass, in any case of letters.',
    deny: 'Requests whose User-Agent header contains one of these texts do not pass.',
    answer: '403',
    examples: { allow: ['ExampleApp/'], deny: ['curl/', 'scrapy'] },
  }),

  cors: corsModule,

  methods: filterModule({
    title: 'MethodsModule',
    pattern: methodPattern,
    fault: methodsFault,
    allow: 'Only requests with these methods pass. GET does not include HEAD.',
    deny: 'Requests with these methods do not pass.',
    answer: '405',
    examples: { allow: ['GET', 'HEAD'], deny: ['DELETE'] },
  }),

  rate_limit: rateLimitModule,

  redirect: define({
    title: 'RedirectModule',
    on: ['route'],
    body: {
      to: redirectFields.to,
      status_code: Type.Optional(redirectFields.status_code),
      keep_path: Type.Optional(redirectFields.keep_path),
      keep_query: Type.Optional(redirectFields.keep_query),
    },
    shape: redirectFields,
    check(body, prefix) {
      const found = redirectFault({ ...redirectDefaults, ...body })
      if (found) throw invalidField(prefix + found.place, found.fault)
    },
    toStored: ({ to, status_code, keep_path, keep_query }) => ({
      settings: {
        to,
        status_code: status_code ?? redirectDefaults.status_code,
        keep_path: keep_path ?? redirectDefaults.keep_path,
        keep_query: keep_query ?? redirectDefaults.keep_query,
      } satisfies Redirect,
    }),
    show: ({ settings }) => settings as Redirect,
  }),

  rewrite: define({
    title: 'RewriteModule',
    on: ['route'],
    body: {
      strip_prefix: Type.Optional(rewriteFields.strip_prefix),
      add_prefix: Type.Optional(rewriteFields.add_prefix),
      host: Type.Optional(rewriteFields.host),
    },
    shape: rewriteFields,
    check(body, prefix) {
      const found = rewriteFault(rewriteOf(body))
      if (found) throw invalidField(prefix + found.place, found.fault)
    },
    toStored: (body) => ({ settings: rewriteOf(body) }),
    show: ({ settings }) => settings as Rewrite,
  }),

  mutual_tls: mutualTlsModule,
} as const satisfies Record<string, Module>

export type ModuleName = keyof typeof modules
/** On TCP edges, the limit counts connections instead of requests. */
const onTcpEdges: Partial<Record<ModuleName, Module>> = { rate_limit: connectionLimitModule }
export const modulesOn = (kind: EdgeKind): [ModuleName, Module][] =>
  (Object.entries({ ...modules, ...(kind === 'tcp' && onTcpEdges) }) as [ModuleName, Module][]).filter(([, module]) =>
    module.on.includes(kind),
  )
