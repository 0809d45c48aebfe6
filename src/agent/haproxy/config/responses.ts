import { mapFile, type ProxySettings } from '../settings.ts'
import { answers } from './answers.ts'
import { isUnreachable, part } from './rules.ts'

/** Answers that tenants have written: `http_response` backends, whose entries response_entry.ts makes. */
export const responseBackend = 'https_response'

/** `txn.response` is the id of what the request is answered with: the backend itself, or the last of a failover backend. */
export const chooseResponse = (settings: ProxySettings): string => `
  acl responds var(txn.response) -m found
  http-request set-var(txn.response) ${part('txn.entry', 'backend')},map_str(${mapFile(settings, 'fallback')}) if ${isUnreachable} !native || native all_down
  http-request set-var(txn.response) ${part('txn.entry', 'backend')} if { ${part('txn.entry', 'backend')} -m beg bkdhr_ }`

/**
 * A backend of its own, although there is nothing behind it: requests in a backend are counted by limits.ts for as long as
 * their clients take to read the answer. In Lua, because HAProxy's own `return` has a fixed status; it costs 7 µs more.
 */
export const responses = `backend ${responseBackend}
  mode http
  http-after-response del-header Content-Length if { status 204 304 }
  # Over HTTP/2 and HTTP/3 an upgrade is a kind of CONNECT, and any 2xx would accept it.
  http-request return ${answers.noWebsocket} if { req.fhdr(upgrade) -m found } { fc_http_major ge 2 }
  http-request lua.respond
  http-request return ${answers.unavailable} if { var(txn.unknown_response) -m found }
  http-request return ${answers.internal}
`
