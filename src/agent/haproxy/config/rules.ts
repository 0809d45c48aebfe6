import { backendValue, placeOf, type TargetKind, type TargetPart } from '../maps/codec.ts'
import { noRestrictions } from '../maps/entries.ts'
import { mapFile, type ProxySettings } from '../settings.ts'

/** Stands in a quoted string, and in the argument of a converter: nothing that either could read as its own. */
export const quoted = (path: string): string => `"${plainPath(path)}"`
/** For runtime commands, which have no quotes. */
export function plainPath(path: string): string {
  if (!/^[\w./@:+~-]+$/.test(path)) throw new Error(`HAProxy cannot be given a path like ${JSON.stringify(path)}`)
  return path
}

/** Parts of an entry begin at fixed places (codec.ts): `field` would read everything before them, byte by byte. */
export const part = (entry: EntryVariable, name: TargetPart) => {
  const { from, length } = placeOf(name, kindOf(entry))
  return `var(${entry}),bytes(${[from, ...(length ? [length] : [])]})`
}
export const fromPart = (entry: EntryVariable, name: TargetPart) =>
  `var(${entry}),bytes(${placeOf(name, kindOf(entry)).from})`
export const kindOf = (entry: EntryVariable): TargetKind => (entry === 'sess.entry' ? 'edgtcp' : 'edghtsrt')
/** A TCP edge is looked up before there is a transaction; a route is looked up for every request. */
export type EntryVariable = 'sess.entry' | 'txn.entry' | 'txn.literal' | 'txn.guard'

/**
 * The same decision for a connection and a request. Lua is asked unless `open` stands where the policies would and the
 * account is known to have no restrictions; and only `open` from Lua lets anything through: when it fails, it has not
 * said so. What else it says, who refused, allowed or warned, is for the line about the request.
 */
export const decision = (settings: ProxySettings, entry: EntryVariable) => `
  acl open ${part(entry, 'policies')} -m str open
  acl unrestricted ${part(entry, 'account')},map_str(${mapFile(settings, 'restrictions')}) -m str ${noRestrictions}
  acl allowed var(txn.decision) -m beg open`
/** A warning is logged at once: what it lets through may last for days. */
export const decide = (rule: string, entry: EntryVariable, conditions: string) => `
  ${rule} set-var(txn.decision) src,hex,concat(|,${entry}),lua.decide if ${conditions}
  ${rule} do-log if allowed { var(txn.decision) -m sub ? }`
export const refuseConnection = 'tcp-request content reject'

/**
 * One policy and an account without restrictions, as most have: what the policy says of an address can be remembered for
 * as long as it is the same policy. It clears, but does not refuse: `decide` says who refuses.
 */
export const onePolicy = (settings: ProxySettings, rule: string, entry: EntryVariable, conditions = '') => `
  ${rule} set-var(txn.policy) ${part(entry, 'policies')},map_str(${mapFile(settings, 'policy')})${conditions && ` if ${conditions}`}`
export const askOnePolicy = (rule: string, conditions: string) => `
  ${rule} set-var(txn.decision) src,hex,concat(|,txn.policy),lua.verdict if ${conditions}`

/** Anything but the characters that route_keys.ts leaves alone, a doubled slash, or what could be a dot segment. */
export const unusualPath = '[^A-Za-z0-9\\-._~!$&\\x27()*+,:=@/]|/[./]'
/** HAProxy refuses CR and LF in a value, and lets the other controls pass, which servers read differently. */
export const controlCharacters = '[\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f]'

/** Matched in lower case. HAProxy checks an IPv6 address no further, and neither does anyone who only compares it. */
export const validHost = '^(?:[a-z0-9_-]+(?:\\.[a-z0-9_-]+)*\\.?|\\[[0-9a-f:.]+\\])(?::[0-9]{0,5})?$'

/**
 * `ipmask` for its result's type: what is not an address leaves no variable behind, and the way is shut. Not for dialing:
 * it turns ::1 and 6to4 addresses into the IPv4 addresses that are part of them.
 */
export const upstream = (settings: ProxySettings, rule: string, entry: EntryVariable) => `
  ${rule} set-var(txn.backend) ${part(entry, 'backend')},map_str(${mapFile(settings, 'backend')})
  ${rule} set-var(txn.address) var(txn.backend),${backendValue.field('address')},ipmask(32,128)`
export const isUnreachable = '!{ var(txn.address) -m found }'
/** Where it is not one address to dial: a backend of HAProxy's own, by name. See native/. */
export const native = (settings: ProxySettings, rule: string, entry: EntryVariable) => `
  acl native var(txn.native) -m found
  acl all_down var(txn.native),nbsrv eq 0
  ${rule} set-var(txn.native) ${part(entry, 'backend')},map_str(${mapFile(settings, entry === 'sess.entry' ? 'tcp_native' : 'http_native')}) if ${isUnreachable}`
export const dial = (rule: string) => `
  ${rule} set-dst var(txn.backend),${backendValue.field('address')}
  ${rule} set-dst-port var(txn.backend),${backendValue.field('port')}`

/** The key of an exact match is the whole, `|` included, and longer than every prefix; see route_keys.ts. */
export const routeOfEdge = (settings: ProxySettings, path: 'txn.path' | 'txn.asked_path' | 'txn.literal_path') =>
  `concat(,${path},/|),map_beg(${mapFile(settings, 'route')})`
