import { rateLimitMost } from '../../../kernel/edge/rate_limit.ts'
import { withModule } from '../maps/codec.ts'
import { rateValue } from '../maps/module_entries.ts'
import { mapFile, type ProxySettings } from '../settings.ts'
import { answers } from './answers.ts'
import { embedsIpv4, refuseOver } from './limits.ts'
import { findModule, warnOf } from './modules.ts'
import { type EntryVariable, part, refuseConnection } from './rules.ts'

/** Counts of windows up to a minute, and of longer ones: those of many short windows must not push out the long ones. */
const tableSize = 200_000
const tables = [
  { name: 'rates_short', seconds: 60 },
  { name: 'rates_long', seconds: rateLimitMost.per_seconds },
] as const

/**
 * An entry for each client and window: a full table forgets those that were not used for longest. A count has to outlast its
 * window, which may have begun just now.
 */
export const rateTables = tables
  .map(
    ({ name, seconds }) =>
      `backend ${name}\n  stick-table type string len 96 size ${tableSize} expire ${seconds + 1}s store gpc0\n`,
  )
  .join('\n')

const field = (name: 'requests' | 'seconds' | 'key' | 'mode') => `var(txn.rate_limit),${rateValue.field(name)}`

/** What all of them ask. */
export const rateAcls = `
  acl rate_exceeded var(txn.rate_left) -m int lt 0`

/**
 * Windows begin at multiples of their length, and are part of the key, so that an entry is never set back while others count
 * with it: a route never takes more than its limit in a window.
 */
const countIn = (rule: string, entry: EntryVariable, failure: string): string => {
  const counter = `%[${part(entry, 'target')}].%[var(txn.rate_window)]`
  return `
  ${rule} set-var(txn.rate_seconds) ${field('seconds')},add(0) if knows_rate_limit
  ${rule} set-var(txn.rate_now) date if knows_rate_limit
  ${rule} set-var(txn.rate_window) var(txn.rate_now),div(txn.rate_seconds) if knows_rate_limit
  ${rule} set-var-fmt(txn.rate_key) "${counter}.%[src,ipmask(32,64)]" if knows_rate_limit { ${field('key')} -m str source } !${embedsIpv4}
  ${rule} set-var-fmt(txn.rate_key) "${counter}.%[src,hex,bytes(0,16)]" if knows_rate_limit { ${field('key')} -m str source } ${embedsIpv4}
  ${rule} set-var-fmt(txn.rate_key) "${counter}" if knows_rate_limit !{ var(txn.rate_key) -m found }
  ${rule} track-sc6 var(txn.rate_key) table ${tables[0].name} if knows_rate_limit { var(txn.rate_seconds) -m int le ${tables[0].seconds} }
  ${rule} track-sc6 var(txn.rate_key) table ${tables[1].name} if knows_rate_limit { var(txn.rate_seconds) -m int gt ${tables[0].seconds} }
  ${rule} set-var(txn.rate_count) sc_inc_gpc0(6) if knows_rate_limit
  ${failure} if knows_rate_limit !{ var(txn.rate_count) -m found }
  ${rule} set-var(txn.rate_left) ${field('requests')},sub(txn.rate_count) if knows_rate_limit`
}

const overLimit = (mode: 'warn' | 'enforce') => `knows_rate_limit rate_exceeded { ${field('mode')} -m str ${mode} }`

/** Once the request may pass, so that refused clients use up nothing. `of`: which requests. */
export const limitRate = (
  settings: ProxySettings,
  of: string,
): string => `${findModule(settings, 'rate_limit', of)}${countIn('http-request', 'txn.entry', `http-request return ${answers.internal}`)}
  http-request set-var(txn.rate_reset) var(txn.rate_now),mod(txn.rate_seconds),neg,add(txn.rate_seconds) if knows_rate_limit rate_exceeded${warnOf('rate_limit', overLimit('warn'))}
  http-request set-var(txn.over) str(rate_limit) if ${overLimit('enforce')}${refuseOver('http-request', `return ${answers.rateLimited}`)}`

/** The same for connections of a TCP edge. A warning is logged at once, unless one was when policies were asked. */
export const limitConnectionRate = (settings: ProxySettings): string => {
  const rule = 'tcp-request content'
  return `
  acl has_rate_limit ${part('sess.entry', 'rate_limit')} -m str ${withModule}
  acl knows_rate_limit var(txn.rate_limit) -m found${rateAcls}
  ${rule} set-var(txn.rate_limit) ${part('sess.entry', 'target')},map_str(${mapFile(settings, 'rate_limit')}) if has_rate_limit
  ${refuseConnection} if has_rate_limit !knows_rate_limit${countIn(rule, 'sess.entry', refuseConnection)}
  ${rule} set-var(txn.warned) bool(true) if { var(txn.decision) -m sub ? }${warnOf('rate_limit', overLimit('warn'), rule)}
  ${rule} do-log if ${overLimit('warn')} !{ var(txn.warned) -m found }
  ${rule} set-var(txn.over) str(rate_limit) if ${overLimit('enforce')}${refuseOver(rule, 'reject')}`
}
