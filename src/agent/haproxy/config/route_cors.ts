import { anyOrigin, corsValue, endOfCors } from '../maps/module_entries.ts'
import { mapFile, type ProxySettings } from '../settings.ts'
import { answers } from './answers.ts'
import { part } from './rules.ts'

/** What both paths ask. A preflight is the question of a browser before a request that no form could make. */
export const corsAcls = `
  acl has_cors_lists var(txn.cors) -m end -- ${endOfCors}
  acl cors_any var(txn.cors) -m beg ${anyOrigin}|
  acl has_origin var(txn.origin) -m found
  acl cors_allows var(txn.cors_origin) -m found
  acl asks_cors req.fhdr(access-control-request-method) -m found
  acl is_preflight var(txn.preflight) -m found`

/**
 * Found before anything is decided, so that a page can read why its request was refused. An origin is one of the map's, or one
 * label in front of one, before it is sent back: nothing else that a client writes gets into a response.
 */
export const findCors = (settings: ProxySettings): string => {
  const listed = (separator: string, variable: string) =>
    `{ ${part('txn.entry', 'target')},concat(${separator},${variable}),map_str(${mapFile(settings, 'cors_origin')}) -m found }`
  return `
  http-request set-var(txn.cors) ${part('txn.entry', 'target')},map_str(${mapFile(settings, 'cors')}) if has_cors
  http-request set-var(txn.cors_origin) str(*) if cors_any
  http-request set-var(txn.origin) req.fhdr(origin) if knows_cors !cors_any
  http-request set-var(txn.cors_origin) var(txn.origin) if has_origin ${listed('|', 'txn.origin')}
  http-request set-var(txn.parent_origin) var(txn.origin),regsub(://[a-z0-9_-]+[.],://x.) if has_origin !cors_allows
  http-request set-var(txn.cors_origin) var(txn.origin) if has_origin !cors_allows ${listed('*', 'txn.parent_origin')}`
}

/** The fast path answers none. */
export const leavesCors = 'has_cors !has_cors_lists || knows_cors METH_OPTIONS asks_cors'

/** Once the client may be here, and before what is about the request that it asks for. */
export const answerPreflights = `
  http-request set-var(txn.preflight) bool(true) if has_cors METH_OPTIONS asks_cors { req.fhdr(origin) -m found }
  http-request return ${answers.corsRefused} if is_preflight !cors_allows
  http-request return status 204 if is_preflight`

/** On all responses of the route, the edge's own too: an upstream that knows other origins must not add to them. */
export const changeCors = (): string => {
  const list = (name: 'preflight' | 'actual') => `var(txn.cors),${corsValue.field(name)},b64dec`
  const of = '{ var(txn.cors) -m found }'
  const allowed = '{ var(txn.cors_origin) -m found }'
  const answered = '{ var(txn.preflight) -m found }'
  return `
  http-after-response del-header access-control- -m beg if ${of}
  http-after-response set-header Access-Control-Allow-Origin %[var(txn.cors_origin)] if ${allowed}
  http-after-response set-headers-bin ${list('actual')} if ${allowed} !${answered}
  http-after-response set-headers-bin ${list('preflight')} if ${answered} ${allowed}
  http-after-response del-header Content-Length if ${answered} { status 204 }
  http-after-response add-header Vary Origin if ${of} !{ var(txn.cors) -m beg ${anyOrigin}| } !{ res.hdr(vary) -m str -i origin }`
}
