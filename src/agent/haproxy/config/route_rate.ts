import { headerKeyPrefix, headerValuesOfSource, rateLimitMost } from '../../../kernel/edge/rate_limit.ts'
import { withModule } from '../maps/codec.ts'
import { rateValue } from '../maps/module_entries.ts'
import { mapFile, type ProxySettings } from '../settings.ts'
import { answers } from './answers.ts'
import { embedsIpv4, refuseOver } from './limits.ts'
import { findModule, warnOf } from './modules.ts'
import { type EntryVariable, part, refuseConnection } from './rules.ts'

/**
 * Counts of windows up to a minute, and of longer ones: those of many short windows must not push out the long ones. Clients
 * choose the values of headers, so their counts have tables of their own.
 */
const tableSize = 200_000
const minute = 60
const tables = [
  {
    name: 'rates_short',
    values: 'rates_short_values',
    seconds: minute,
    condition: `{ var(txn.rate_seconds) -m int le ${minute} }`,
  },
  {
    name: 'rates_long',
    values: 'rates_long_values',
    seconds: rateLimitMost.per_seconds,
    condition: `{ var(txn.rate_seconds) -m int gt ${minute} }`,
  },
]
/**
 * An entry for each client and window: a full table forgets those that were not used for longest. A count has to outlast its
 * window, which may have begun just now. A table of values forgets none, or clients could make it forget the values they have used up.
 */
export const rateTables = tables
  .flatMap(({ name, values, seconds }) => [
    `backend ${name}\n  stick-table type string len 96 size ${tableSize} expire ${seconds + 1}s store gpc0\n`,
    `backend ${values}\n  stick-table type string len 96 size ${tableSize} nopurge expire ${seconds + 1}s store gpc0\n`,
  ])
  .join('\n')

const field = (name: 'requests' | 'seconds' | 'key' | 'mode' | 'scope') =>
  `var(txn.rate_limit),${rateValue.field(name)}`

/** What all of them ask. */
export const rateAcls = `
  acl rate_exceeded var(txn.rate_left) -m int lt 0
  acl has_rate var(txn.rate_requests) -m found`
export const rateValueAcls = `
  acl has_rate_key var(txn.rate_value_key) -m found
  acl is_new_value var(txn.rate_is_new) -m found`

const forEachTable = (rules: (table: (typeof tables)[number]) => string): string =>
  tables.map((table) => `\n  ${rules(table)}`).join('')
/** What is counted, in this window. */
const counterOf = (entry: EntryVariable): string => `%[${part(entry, 'target')}].%[var(txn.rate_window)]`

/**
 * A limit of the cell is divided by the number of its nodes, and every node lets at least one through. Where the number is not known, none:
 * too many nodes might each take it for theirs.
 */
const findLimit = (settings: ProxySettings, rule: string, entry: EntryVariable, failure: string): string => `
  acl of_cell ${field('scope')} -m str cell
  ${rule} set-var(txn.rate_requests) ${field('requests')},add(0) if !of_cell
  ${rule} set-var(txn.cell_nodes) ${part(entry, 'account')},map_str_int(${mapFile(settings, 'cell_nodes')}) if of_cell
  ${rule} set-var(txn.rate_requests) ${field('requests')},div(txn.cell_nodes) if { var(txn.cell_nodes) -m int ge 1 }
  ${rule} set-var(txn.rate_requests) int(1) if { var(txn.cell_nodes) -m found } { var(txn.rate_requests) -m int lt 1 }
  ${failure} if knows_rate_limit !has_rate`

/**
 * Windows begin at multiples of their length, and are part of the key, so that an entry is never set back while others count
 * with it: a route never takes more than its limit in a window. `byValue`: rules that may count in another table.
 */
const countIn = (
  settings: ProxySettings,
  rule: string,
  entry: EntryVariable,
  failure: string,
  byValue = '',
): string => {
  const counter = counterOf(entry)
  return `${findLimit(settings, rule, entry, failure)}
  ${rule} set-var(txn.rate_seconds) ${field('seconds')},add(0)
  ${rule} set-var(txn.rate_window) date,div(txn.rate_seconds)
  ${rule} set-var-fmt(txn.rate_key) "${counter}" if { ${field('key')} -m str route edge }
  ${rule} set-var-fmt(txn.rate_key) "${counter}.%[src,ipmask(32,64)]" if knows_rate_limit !{ var(txn.rate_key) -m found } !${embedsIpv4}
  ${rule} set-var-fmt(txn.rate_key) "${counter}.%[src,hex,bytes(0,16)]" if knows_rate_limit !{ var(txn.rate_key) -m found }${byValue}${forEachTable(({ name, condition }) => `${rule} track-sc6 var(txn.rate_key) table ${name} if ${condition}`)}
  ${rule} set-var(txn.rate_count) sc_inc_gpc0(6)
  ${failure} if knows_rate_limit !{ var(txn.rate_count) -m found }
  ${rule} set-var(txn.rate_left) var(txn.rate_requests),sub(txn.rate_count)`
}

/**
 * A value of a header has a count of its own if it has one already, or if its client has not brought many and the table has
 * room. Otherwise none is tracked here, and the rules after these count for the address of the client: inventing values gets a client
 * no more than `headerValuesOfSource` times the limit, and takes nothing from others. Some values are secret, so they
 * are kept as hashes. See docs/adr/0148.
 */
const countByValue = (entry: EntryVariable, isCareful: boolean): string => `
  http-request set-var(txn.header_lines) req.hdrs if { ${field('key')} -m beg ${headerKeyPrefix} }
  http-request set-var(txn.rate_value) var(txn.rate_limit),concat(${isCareful ? '!' : '@'},txn.header_lines),lua.rate_value if { var(txn.header_lines) -m found }
  http-request set-var-fmt(txn.rate_value_key) "${counterOf(entry)}.%[var(txn.rate_value),sha2(256),base64]" if { var(txn.rate_value) -m len gt 0 }
  http-request set-var(txn.rate_is_new) bool(true) if has_rate_key ${tables.map(({ values }) => `!{ var(txn.rate_value_key),in_table(${values}) }`).join(' ')}${forEachTable(({ name, condition }) => `http-request track-sc7 var(txn.rate_key),concat(.values) table ${name} if is_new_value ${condition}`)}
  http-request set-var(txn.rate_values) sc_inc_gpc0(7) if is_new_value
  http-request unset-var(txn.rate_value_key) if is_new_value !{ var(txn.rate_values) -m int le ${headerValuesOfSource} }${forEachTable(({ values, condition }) => `http-request track-sc6 var(txn.rate_value_key) table ${values} if has_rate_key ${condition}`)}`

const overLimit = (mode: 'warn' | 'enforce') => `rate_exceeded { ${field('mode')} -m str ${mode} }`

/** Once the request may pass, so that refused clients use up nothing. `of`: which requests. */
export const limitRate = (
  settings: ProxySettings,
  of: string,
): string => `${findModule(settings, 'rate_limit', of)}${countIn(settings, 'http-request', 'txn.entry', `http-request return ${answers.internal}`, countByValue('txn.entry', of === ''))}
  http-request set-var(txn.rate_end) var(txn.rate_window),add(1),mul(txn.rate_seconds) if rate_exceeded
  http-request set-var(txn.rate_reset) date,neg,add(txn.rate_end) if rate_exceeded${warnOf('rate_limit', overLimit('warn'))}
  http-request set-var(txn.over) str(rate_limit) if ${overLimit('enforce')}${refuseOver('http-request', `return ${answers.rateLimited}`)}`

/** The same for connections of a TCP edge. A warning is logged at once, unless one was when policies were asked. */
export const limitConnectionRate = (settings: ProxySettings): string => {
  const rule = 'tcp-request content'
  return `
  acl has_rate_limit ${part('sess.entry', 'rate_limit')} -m str ${withModule}
  acl knows_rate_limit var(txn.rate_limit) -m found${rateAcls}
  ${rule} set-var(txn.rate_limit) ${part('sess.entry', 'target')},map_str(${mapFile(settings, 'rate_limit')}) if has_rate_limit
  ${refuseConnection} if has_rate_limit !knows_rate_limit${countIn(settings, rule, 'sess.entry', refuseConnection)}
  ${rule} set-var(txn.warned) bool(true) if { var(txn.decision) -m sub ? }${warnOf('rate_limit', overLimit('warn'), rule)}
  ${rule} do-log if ${overLimit('warn')} !{ var(txn.warned) -m found }
  ${rule} set-var(txn.over) str(rate_limit) if ${overLimit('enforce')}${refuseOver(rule, 'reject')}`
}
