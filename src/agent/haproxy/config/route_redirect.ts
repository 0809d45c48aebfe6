import { redirectStatuses } from '../../../kernel/edge/redirect.ts'
import { redirectValue } from '../maps/module_entries.ts'
import type { ProxySettings } from '../settings.ts'
import { answers } from './answers.ts'
import { findModule } from './modules.ts'

/**
 * Once the request may pass. Location begins with the host that the tenant wrote, and a path with a slash comes after it, so no
 * client chooses another host. HAProxy has refused line ends, spaces and other controls in a request's target.
 */
export const redirectRequests = (settings: ProxySettings): string => {
  const field = (name: 'status' | 'keeps' | 'to') => `var(txn.redirect),${redirectValue.field(name)}`
  const answer = (status: number) => `
  http-request return status ${status} hdr Location %[var(txn.location)] if has_redirect { ${field('status')} -m str ${status} }`
  return `${findModule(settings, 'redirect', '')}
  http-request set-var(txn.location) ${field('to')} if has_redirect
  http-request return ${answers.internal} if has_redirect !{ var(txn.location) -m beg http } || has_redirect !{ path -m beg / }
  http-request set-var-fmt(txn.location) "%[var(txn.location)]%[path]" if has_redirect { ${field('keeps')} -m beg p }
  http-request set-var-fmt(txn.location) "%[var(txn.location)]?%[query]" if has_redirect { ${field('keeps')} -m end q } { query -m len gt 0 }
  # The tenant's answer, so that all of its response headers apply.
  http-request set-var(txn.replied) bool(true) if has_redirect${redirectStatuses.map(answer).join('')}
  http-request return ${answers.internal} if has_redirect`
}
