import { filterLimits } from '../../../kernel/edge/filters.ts'
import { filterValue } from '../maps/module_entries.ts'
import type { ProxySettings } from '../settings.ts'
import { answers } from './answers.ts'
import { findModule, requireModule, warnOf } from './modules.ts'

type FilterName = 'methods' | 'user_agent_filter'

/** Only `pass` from Lua lets a request through: anything else, or an error in it, refuses or warns. */
const judge = (name: FilterName, converter: string, subject: string, isClear: string, answer: string): string => `
  http-request set-var(txn.${name}_verdict) var(txn.${name}),concat(|,${subject}),lua.${converter} if knows_${name}${isClear}${warnOf(name, `knows_${name} !passes_${name} { var(txn.${name}) -m beg warn| }`)}
  http-request return ${answer} if knows_${name} !passes_${name} !{ var(txn.${name}) -m beg warn| }`

/** What both paths ask. */
export const filterAcls = (['methods', 'user_agent_filter'] satisfies FilterName[])
  .map((name) => `\n  acl passes_${name} var(txn.${name}_verdict) -m str pass`)
  .join('')

/** Some servers read any other character as a hyphen. The fast path gets no such names. */
const disguisedUserAgent = '(*LF)(?mi)^user[^a-z0-9-]agent[ \\t]*:'

/**
 * Once policies let the request pass. Which of two User-Agent headers a server believes is not known, so two are never let
 * through. `of`: which requests.
 */
export const filterUserAgents = (
  settings: ProxySettings,
  of: string,
): string => `${findModule(settings, 'user_agent_filter', of)}${requireModule('user_agent_filter')}
  http-request set-var(txn.user_agent) req.fhdr(user-agent),lower if knows_user_agent_filter${judge(
    'user_agent_filter',
    'user_agent_passes',
    'txn.user_agent',
    ` !{ req.fhdr_cnt(user-agent) gt 1 } !{ var(txn.user_agent) -m len gt ${filterLimits.userAgentBytes} }${of ? '' : ` !{ req.hdrs -m reg '${disguisedUserAgent}' }`}`,
    answers.userAgentRefused,
  )}`

export const filterMethods = (
  settings: ProxySettings,
  of: string,
): string => `${findModule(settings, 'methods', of)}${requireModule('methods')}
  http-request set-var(txn.method) method if knows_methods
  http-request set-var(txn.allowed_methods) var(txn.methods),${filterValue.field('methods')}${judge('methods', 'method_passes', 'txn.method', '', answers.methodRefused)}`
