import { withHeaders } from '../maps/codec.ts'
import { endOfLists, responseList } from '../maps/header_lists.ts'
import { mapFile, type ProxySettings } from '../settings.ts'
import { changeCors } from './route_cors.ts'
import { part } from './rules.ts'

/** What both paths ask. */
export const responseHeaderAcls = `
  acl has_response_headers ${part('txn.entry', 'response')} -m str ${withHeaders}
  acl has_response_lists var(txn.response_lists) -m end -- ${endOfLists}`

/** Found before anything is decided, so that the answer to a refused request has them too. */
export const findResponseLists = (settings: ProxySettings): string =>
  `  http-request set-var(txn.response_lists) ${part('txn.entry', 'target')},map_str(${mapFile(settings, 'response_lists')}) if has_response_headers`

/**
 * After all other rules about responses, which the first of these ends for routes without the modules. The edge itself has
 * answered where no server was chosen, or one was and failed; an answer of Lua is one of the tenant's.
 */
export const changeResponses = `
  http-after-response allow if !{ var(txn.response_lists) -m found } !{ var(txn.cors) -m found }${changeCors()}
  http-after-response allow if !{ var(txn.response_lists) -m found }
  acl answered_by_edge var(txn.answered_by_edge) -m found
  http-after-response set-var(txn.answered_by_edge) bool(true) if !{ srv_id gt 0 } !{ var(txn.replied) -m found } || { status 502 503 504 } { txn.sess_term_state -m beg S s P }
  http-after-response del-headers-bin var(txn.response_lists),${responseList('deleted')} if !answered_by_edge
  http-after-response set-headers-bin var(txn.response_lists),${responseList('set')} if !answered_by_edge
  http-after-response add-headers-bin var(txn.response_lists),${responseList('added')} if !answered_by_edge
  http-after-response set-headers-bin var(txn.response_lists),${responseList('everywhere')}
`
