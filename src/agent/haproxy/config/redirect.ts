import { logRequests } from '../lines/request_lines.ts'
import { readyKey } from '../maps/entries.ts'
import { mapFile, type ProxySettings } from '../settings.ts'
import { answers, parserAnswers } from './answers.ts'
import { expectProxyProtocol } from './client_address.ts'
import { refuseEmergencyConnections } from './emergency.ts'
import { limitSourceConnections } from './limits.ts'
import { controlCharacters, validHost } from './rules.ts'

/** Nothing leads to it. It names the map that only port 80 looks into, so that every node has all maps. */
const withoutPort80 = (settings: ProxySettings): string => `backend without_port_80
  mode http
  http-request set-var(txn.answer) var(txn.host),map_str(${mapFile(settings, 'challenge')})
`

/**
 * Port 80: only a way to HTTPS, and only for hosts that an edge serves. A path reaches Location as HAProxy has parsed it,
 * without spaces and control characters, and the host as it stands in the map.
 */
export const redirectFrontend = (settings: ProxySettings): string => {
  const { httpBind = [] } = settings
  if (httpBind.length === 0) return withoutPort80(settings)
  return `frontend http
  mode http
${httpBind.map((at) => `  bind ${at}${at.startsWith('[') ? ' v6only' : ''}\n`).join('')}${parserAnswers(settings)}  unique-id-format %[uuid(7)]${logRequests(settings)}${expectProxyProtocol(settings)}${refuseEmergencyConnections(settings)}${limitSourceConnections(settings)}
  http-after-response set-header Connection close if { var(proc.draining) -m bool }
  http-request return ${answers.draining} if { stopping } { date,sub(proc.refuse_after) gt 0 }
  http-request return ${answers.notAllowed} if METH_CONNECT || METH_TRACE
  http-request return ${answers.badRequest} if { req.hdrs -m reg '${controlCharacters}' } || !{ path -m beg / }
  http-request return ${answers.badHost} if !{ req.fhdr(host),lower -m reg '${validHost}' }
  http-request set-var(txn.host) req.fhdr(host),lower,host_only,rtrim(.)
  # ACME's http-01: the exact host and token, or nothing. What is not known is redirected like everything else.
  http-request set-var(txn.token) path,field(4,/,0) if { path -m beg /.well-known/acme-challenge/ } METH_GET
  http-request set-var(txn.answer) var(txn.host),concat(/,txn.token),map_str(${mapFile(settings, 'challenge')}) if { var(txn.token) -m found }
  http-request return status 200 content-type application/octet-stream lf-string "%[var(txn.answer)]" hdr X-Request-Id %[unique-id] if { var(txn.answer) -m found }
  http-request set-var(txn.edge) var(txn.host),map_str(${mapFile(settings, 'host')})
  http-request set-var(txn.edge) var(txn.host),lua.reverse,map_beg(${mapFile(settings, 'wildcard')}) if !{ var(txn.edge) -m found }
  http-request return ${answers.notReady} if !{ var(txn.edge) -m found } !{ str(${readyKey}),map_str(${mapFile(settings, 'node')}) -m found }
  http-request return ${answers.notFound} if !{ var(txn.edge) -m found }
  http-request return ${answers.useHttps} hdr Location "https://%[var(txn.host)]%[pathq]"
`
}
