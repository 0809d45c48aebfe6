import {
  type RouteModuleName,
  type RouteModuleSettings,
  routeModuleNames,
} from '../../../distribution/route_modules.ts'
import { anything, corsFault, parentOf } from '../../../kernel/edge/cors.ts'
import { allowedMethods, type Filter, methodsFault, userAgentFault } from '../../../kernel/edge/filters.ts'
import { encodeHeaderText } from '../../../kernel/edge/headers.ts'
import { type ConnectionLimit, rateLimitKeyFault } from '../../../kernel/edge/rate_limit.ts'
import { redirectFault } from '../../../kernel/edge/redirect.ts'
import { rewriteFault } from '../../../kernel/edge/rewrite.ts'
import { delimited, UnusableRecord, withModule } from './codec.ts'
import { headersToSet } from './header_lists.ts'

/** Allowed and denied values, and the methods that a refusal lists. */
export const filterValue = delimited('mode', 'allow', 'deny', 'methods')

/** Headers for preflight responses and for other responses. The dot marks the end. */
export const corsValue = delimited('origins', 'preflight', 'actual', 'end')
export const anyOrigin = 'any'
export const endOfCors = '|.'

/** `scope` is missing unless it is `cell`. */
export const rateValue = delimited('requests', 'seconds', 'key', 'mode', 'scope')

/** `keeps` has letters for the parts of the request to keep: `p` for its path, `q` for its query. */
export const redirectValue = delimited('status', 'keeps', 'to')

/**
 * `strip` ends with a slash, is a single slash if nothing is removed, and has the length `bytes`. A path has the prefix,
 * by whole segments, if the path plus a slash begins with `strip`. The dot marks the end.
 */
export const rewriteValue = delimited('bytes', 'strip', 'add', 'host', 'end')
export const endOfRewrite = '|.'

/** The value of each module, which HAProxy's rules find in the module's map under the route's id. */
const values: { [Name in RouteModuleName]: (settings: RouteModuleSettings[Name]) => string } = {
  user_agent_filter(filter) {
    checked('user_agent_filter', userAgentFault(filter))
    return filterLists(filter, (text) => text.toLowerCase())
  },

  cors(cors) {
    checked('cors', corsFault(cors))
    const list = (name: string, values: readonly string[]): [string, string][] =>
      values.length ? [[`access-control-${name}`, values.join(', ')]] : []
    const credentials = list('allow-credentials', cors.allow_credentials ? ['true'] : [])
    const preflight = [
      ...list('allow-methods', cors.allowed_methods),
      ...list('allow-headers', cors.allowed_headers),
      ...list('max-age', [`${cors.max_age_seconds}`]),
      ...credentials,
    ]
    const actual = [...list('expose-headers', cors.exposed_headers), ...credentials]
    return corsValue.format({
      origins: cors.allowed_origins.includes(anything) ? anyOrigin : 'listed',
      preflight: headersToSet(preflight),
      actual: headersToSet(actual),
      end: '.',
    })
  },

  methods(filter) {
    checked('methods', methodsFault(filter))
    return filterLists(filter, (method) => method, allowedMethods(filter))
  },

  rate_limit({ requests, per_seconds, key, mode, scope }) {
    const fault = rateLimitKeyFault(key)
    checked('rate_limit', fault === undefined ? undefined : { place: 'key', fault })
    return rateValue.format({ requests, seconds: per_seconds, key, mode, scope: scopeOf(scope) })
  },

  redirect(redirect) {
    checked('redirect', redirectFault(redirect))
    const { to, status_code, keep_path, keep_query } = redirect
    const keeps = `${keep_path ? 'p' : '-'}${keep_query ? 'q' : '-'}`
    return redirectValue.format({ status: status_code, keeps, to: keep_path ? to.replace(/\/$/, '') : to })
  },

  rewrite(rewrite) {
    checked('rewrite', rewriteFault(rewrite))
    const strip = `${rewrite.strip_prefix ?? ''}/`
    const { add_prefix: add, host } = rewrite
    return rewriteValue.format({ bytes: strip.length, strip, add: add ?? '', host: host ?? '', end: '.' })
  },
}

function checked(name: RouteModuleName, found: { place: string; fault: string } | undefined): void {
  if (found) throw new UnusableRecord(`${name} ${found.place} ${found.fault}`)
}

function scopeOf(scope: ConnectionLimit['scope']): string | undefined {
  if (scope !== undefined && scope !== 'cell')
    throw new UnusableRecord(`${JSON.stringify(scope)} is no scope of a limit`)
  return scope
}

function filterLists(
  { mode, allow, deny }: Filter,
  spelled: (entry: string) => string,
  methods: string[] = [],
): string {
  const list = (entries: readonly string[]) => entries.map((entry) => encodeHeaderText(spelled(entry))).join('&')
  return filterValue.format({ mode, allow: list(allow), deny: list(deny), methods: methods.join(',') })
}

type Settings = Partial<RouteModuleSettings>
const isOn = (settings: Settings) => (name: RouteModuleName) => settings[name] !== undefined

/** For a TCP edge, whose rules only check that the key is `source`. */
export const connectionLimitEntry = (edge: string, limit: ConnectionLimit) => ({
  map: 'rate_limit' as const,
  key: edge,
  value: rateValue.format({
    ...{ requests: limit.connections, seconds: limit.per_seconds, key: limit.key, mode: limit.mode },
    scope: scopeOf(limit.scope),
  }),
})

/** The parts of a route's entry that mark its modules. */
export const moduleParts = (settings: Settings): Partial<Record<RouteModuleName, string>> =>
  Object.fromEntries(routeModuleNames.filter(isOn(settings)).map((name) => [name, withModule]))

export const moduleEntries = (route: string, settings: Settings) => [
  ...routeModuleNames.filter(isOn(settings)).map((map) => ({ map, key: route, value: settingsValue(map, settings) })),
  ...(settings.cors?.allowed_origins ?? []).map((origin) => ({
    map: 'cors_origin' as const,
    key: originKey(route, origin),
    value: 'yes',
  })),
]

/**
 * `x` stands for any label and `*` separates such keys: only an origin with a label at that place is looked up with it.
 */
const originKey = (route: string, origin: string): string =>
  parentOf(origin) ? `${route}*${origin.replace('*', 'x')}` : `${route}|${origin}`

function settingsValue<Name extends RouteModuleName>(name: Name, settings: Settings): string {
  const read: (settings: RouteModuleSettings[Name]) => string = values[name]
  return read(settings[name] as RouteModuleSettings[Name])
}
