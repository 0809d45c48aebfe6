import { responseFault } from '../../kernel/edge/fixed_response.ts'
import { rateLimitKeyFault, rateLimitMost } from '../../kernel/edge/rate_limit.ts'
import { type Redirect, redirectFault, redirectStatuses } from '../../kernel/edge/redirect.ts'
import { type Rewrite, rewriteFault } from '../../kernel/edge/rewrite.ts'
import type { Json, Rule } from '../state/kinds.ts'
import { cidrOf } from './cidr.ts'
import { type Notes, referredId, textsOf } from './notes.ts'

export type Action = { readonly type: string; readonly phase: 'request' | 'response'; readonly config: Json }

/** A route or TCP edge as far as it is imported, and what actions may add to it. */
export type Place = {
  readonly title: string
  readonly notes: Notes
  readonly isTcp: boolean
  /** Names of the edge. */
  readonly hosts: readonly string[]
  readonly policies: ReadonlySet<string>
  /** As the vendor has it. Actions that are modules there too are put in here. */
  readonly row: Json
  /** Modules that only we have. */
  readonly modules: Json
  /** Both resolve to the id of the new resource. */
  readonly addPolicy: (rules: readonly Rule[]) => string
  readonly addResponse: (fields: Json) => string
  /** An action has sent a response, so no later action runs. */
  readonly isAnswered: () => boolean
}

/** Why it cannot be imported, completing 'because …'. Undefined if it can. */
type Reader = (action: Action, place: Place) => string | undefined

const noHttp = 'a TCP edge sees no requests'
const isOn = (module: unknown): boolean =>
  module !== null && module !== undefined && (module as { enabled?: unknown }).enabled !== false

function restrictIps({ config }: Action, { row, notes, title, policies, addPolicy }: Place): string | undefined {
  if (isOn(row.ip_restriction)) return 'there is a restriction already, and both would have to allow a client'
  const [allow, deny] = [textsOf(config.allow), textsOf(config.deny)]
  const byRange = new Map<string, Rule>()
  for (const [action, texts] of Object.entries({ allow, deny }))
    for (const text of texts) {
      const cidr = cidrOf(text)
      if (!cidr) return `${text} is no range of addresses`
      byRange.set(cidr, { action, cidr })
    }
  const listed = Array.isArray(config.ip_policies) ? config.ip_policies : []
  const ids = listed.map((each) => (typeof each === 'string' ? each : referredId(each)))
  const unknown = ids.find((id) => id === undefined || !policies.has(id))
  if (ids.length > 0 && ids.includes(unknown)) return `the IP policy ${unknown} is not in the account`
  if (byRange.size === 0 && ids.length === 0) return 'it has no ranges and no IP policies'
  if (allow.length === 0 && ids.length === 0)
    notes.add(title, 'restrict-ips has no range to allow, so it lets no one in, as there')
  const all = [...(byRange.size ? [addPolicy([...byRange.values()])] : []), ...(ids as string[])]
  row.ip_restriction = {
    enabled: true,
    ip_policies: all.map((id) => ({ id })),
    ...(config.enforce === false && { mode: 'warn' }),
  }
  return undefined
}

const units: Record<string, number> = { s: 1, m: 60, h: 3_600 }
function secondsOf(text: unknown): number | undefined {
  const parts = [...String(text).matchAll(/(\d{1,6})([smh])/g)]
  const isWhole = parts.length > 0 && parts.map(([part]) => part).join('') === text
  return isWhole ? parts.reduce((sum, [, count, unit = 's']) => sum + Number(count) * (units[unit] ?? 0), 0) : undefined
}

/** What is counted, if it is one thing that can be here. */
function keyOf(bucket: unknown, hosts: readonly string[]): string | undefined {
  const [expression, ...others] = Array.isArray(bucket) ? bucket : [bucket]
  if (others.length > 0) return undefined
  const text = String(expression)
  if (text === 'conn.client_ip') return 'source'
  if (/^(?:req\.host|conn\.server_name)$/.test(text) && hosts.length === 1) return 'route'
  const [, name] =
    /^(?:req\.headers\[|getReqHeader\()['"]([A-Za-z0-9-]+)['"](?:\]|\))(?:\[0\]|\.join\(['"]['",]?['"]\))?$/.exec(
      text,
    ) ?? []
  const key = name && `header:${name}`
  return key && rateLimitKeyFault(key) === undefined ? key : undefined
}

function rateLimit({ config, phase }: Action, { isTcp, hosts, modules, notes, title }: Place): string | undefined {
  if (isTcp) return noHttp
  if (phase === 'response') return 'it acts on responses'
  if (modules.rate_limit) return 'a route has one rate_limit'
  const [requests, per_seconds] = [config.capacity, secondsOf(config.rate)]
  const key = keyOf(config.bucket_key, hosts)
  if (!Number.isInteger(requests) || Number(requests) < 1 || Number(requests) > rateLimitMost.requests)
    return `its capacity is not from 1 to ${rateLimitMost.requests}`
  if (per_seconds === undefined || per_seconds < 1 || per_seconds > rateLimitMost.per_seconds)
    return `its rate is not from 1 to ${rateLimitMost.per_seconds} seconds`
  if (key === undefined) return 'it counts by something else than the address of the client, the route or one header'
  const mode = config.enforce === false ? 'warn' : 'enforce'
  // The vendor's limit is one for all of its nodes.
  modules.rate_limit = { enabled: true, requests, per_seconds, key, mode, scope: 'cell' }
  notes.add(
    title,
    'its rate limit counts in windows that begin at multiples of their length, and is divided among the nodes of a cell; set `scope: node` if every client stays at one node',
  )
  return undefined
}

/** Later actions see the results of earlier ones, so the last of two with the same name counts. */
function changeHeaders(
  { phase }: Action,
  { isTcp, row }: Place,
  change: (add: Map<string, unknown>, remove: Map<string, string>) => void,
): string | undefined {
  if (isTcp) return noHttp
  const field = `${phase}_headers`
  const module = isOn(row[field]) ? (row[field] as Json) : {}
  const add = new Map(Object.entries((module.add ?? {}) as Json))
  const remove = new Map(textsOf(module.remove).map((name) => [name.toLowerCase(), name]))
  change(add, remove)
  row[field] = { enabled: true, add: Object.fromEntries(add), remove: [...remove.values()] }
  return undefined
}
const dropName = (add: Map<string, unknown>, name: string) => {
  for (const known of add.keys()) if (known.toLowerCase() === name.toLowerCase()) add.delete(known)
}

function redirect({ config, phase }: Action, { isTcp, modules, hosts, notes, title }: Place): string | undefined {
  if (isTcp) return noHttp
  if (phase === 'response') return 'it acts on responses'
  const found = targetOf(config, hosts)
  if (!found) return 'it changes a part of the URL by a pattern, and a redirect here has one target'
  const status_code = (config.status_code ?? 302) as Redirect['status_code']
  if (!redirectStatuses.includes(status_code)) return `its status_code is not one of ${redirectStatuses.join(', ')}`
  const fault = redirectFault({ ...found, status_code })
  if (fault) return `its ${fault.place} ${fault.fault}`
  if (Object.keys((config.headers ?? {}) as Json).length > 0)
    notes.add(title, 'its redirect sends no headers here: write them into response_headers')
  modules.redirect = { enabled: true, ...found, status_code }
  return undefined
}

const everything = /^\^?\(?\.\*\)?\$?$/
/** Either one URL for everything, or another host with the same path and query. */
function targetOf({ from, to }: Json, hosts: readonly string[]): Omit<Redirect, 'status_code'> | undefined {
  if (typeof to !== 'string') return undefined
  if (from === undefined || everything.test(String(from)))
    return /\$/.test(to) ? undefined : { to, keep_path: false, keep_query: false }
  const [, host] = /^\^?https?\??:\/\/([^/()]+)\/\(\.\*\)\$?$/.exec(String(from)) ?? []
  const [, base] = /^(https?:\/\/[^$]+)\/\$1$/.exec(to) ?? []
  const isOwn = hosts.length === 1 && host?.replaceAll('\\.', '.') === hosts[0]
  return isOwn && base && hostOfUrl(base) !== hosts[0] ? { to: base, keep_path: true, keep_query: true } : undefined
}
const hostOfUrl = (text: string): string | undefined => URL.parse(text)?.hostname

/** `/api/(.*)` → `/v1/$1` in its usual spellings: replaces a prefix in the route's paths. */
function urlRewrite({ config, phase }: Action, { isTcp, row, modules }: Place): string | undefined {
  if (isTcp) return noHttp
  if (phase === 'response') return 'it acts on responses'
  if (modules.rewrite) return 'a route has one rewrite'
  const [from, to] = [String(config.from), String(config.to)]
  const withHost = from.replace(/^\^?\(https\?:\/\/\[\^\/\]\+\)/, '')
  const [prefix, target] =
    withHost === from ? [from, to] : [withHost, to.startsWith('$1/') ? to.slice(2).replace('$2', '$1') : '']
  const [, strip] = /^(\/[^.*+?()[\]{}|\\^$]*?)\/(?:\??\(\.\*\)\$?)?$/.exec(prefix) ?? []
  const [, add] = /^((?:\/[^$/]+)*)\/(?:\$1)?$/.exec(target) ?? []
  const isWhole = strip !== undefined && add !== undefined && prefix.endsWith('/') === target.endsWith('/')
  const match = String(row.match)
  if (!isWhole || !(match === strip || match.startsWith(`${strip}/`)))
    return 'it changes URLs by a pattern, and a rewrite here replaces the prefix of the route'
  const fields: Rewrite = { strip_prefix: strip, add_prefix: add || null, host: null }
  const fault = rewriteFault(fields)
  if (fault) return `${fault.place} ${fault.fault}`
  modules.rewrite = { enabled: true, ...fields }
  return undefined
}

/** The response replaces the route's backend, so it runs after everything that refuses, as it does at the vendor. */
function answerWith({ phase }: Action, { isTcp, row, addResponse }: Place, fields: Json): string | undefined {
  if (isTcp) return noHttp
  if (phase === 'response') return 'it acts on responses'
  const { status_code, headers, body } = fields
  const own = { status: Number(status_code), headers: Object.entries(headers as Record<string, string>) }
  const fault = responseFault({ ...own, body: String(body) })
  if (fault) return `its ${fault.place} ${fault.fault}`
  if (/\$\{/.test(JSON.stringify(fields))) return 'it has a variable, and responses are fixed here'
  row.backend = { enabled: true, backend: { id: addResponse(fields) } }
  return undefined
}

const textMap = (value: unknown): Record<string, string> =>
  Object.fromEntries(Object.entries((value ?? {}) as Json).map(([name, each]) => [name, String(each)]))

export const readers: Record<string, Reader> = {
  'restrict-ips': restrictIps,
  'rate-limit': rateLimit,
  'add-headers': (action, place) =>
    changeHeaders(action, place, (add, remove) => {
      for (const [name, value] of Object.entries(textMap(action.config.headers))) {
        dropName(add, name)
        remove.delete(name.toLowerCase())
        add.set(name, value)
      }
    }),
  'remove-headers': (action, place) =>
    changeHeaders(action, place, (add, remove) => {
      for (const name of textsOf(action.config.headers)) {
        dropName(add, name)
        remove.set(name.toLowerCase(), name)
      }
    }),
  redirect,
  'url-rewrite': urlRewrite,
  'custom-response': (action, place) => {
    const { status_code = 200, headers, body, content } = action.config
    return answerWith(action, place, { status_code, headers: textMap(headers), body: String(body ?? content ?? '') })
  },
  deny: (action, place) =>
    answerWith(action, place, { status_code: action.config.status_code ?? 403, headers: {}, body: '' }),
}
