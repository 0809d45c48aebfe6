import { join } from 'node:path'
import { type Files, writeIfDifferent } from '../../disk/files.ts'
import { answerFolder, type ProxySettings } from '../settings.ts'
import { quoted } from './rules.ts'

const errorBody = (status: number, code: string, msg: string): string =>
  JSON.stringify({ error_code: code, status_code: status, msg, details: {} })
/** All of them get an X-Request-Id, like the answers of upstreams: see request_lines.ts. */
const answer = (status: number, code: string, msg: string): string =>
  `status ${status} content-type application/json string '${errorBody(status, code, msg)}'`

const refusedCertificate = (code: string, msg: string): string =>
  `status 403 content-type application/json lf-string '{"error_code":"${code}","status_code":403,"msg":"${msg}","details":{"request_id":"%[unique-id]"}}'`

const timeout = [408, 'ERR_REQUEST_TIMEOUT', 'The request took too long to arrive.'] as const

/** What the edge itself says, as arguments of `http-request return` and `http-error`. */
export const answers = {
  badRequest: answer(400, 'ERR_BAD_REQUEST', 'The request is not valid HTTP.'),
  // The id is in the body too, so that people can pass it on to the owner of the rules.
  refused: `status 403 content-type application/json lf-string '{"error_code":"ERR_IP_REFUSED","status_code":403,"msg":"Requests from this address are refused.","details":{"request_id":"%[unique-id]"}}'`,
  emergency: `status 403 content-type application/json lf-string '{"error_code":"ERR_IP_REFUSED","status_code":403,"msg":"Requests from this address are refused for now.","details":{"request_id":"%[unique-id]"}}'`,
  userAgentRefused: `status 403 content-type application/json lf-string '{"error_code":"ERR_USER_AGENT_REFUSED","status_code":403,"msg":"This route refuses requests with this User-Agent.","details":{"request_id":"%[unique-id]"}}'`,
  corsRefused: `status 403 content-type application/json lf-string '{"error_code":"ERR_CORS_REFUSED","status_code":403,"msg":"This route does not accept requests from pages of this origin.","details":{"request_id":"%[unique-id]"}}'`,
  methodRefused: `status 405 content-type application/json lf-string '{"error_code":"ERR_METHOD_REFUSED","status_code":405,"msg":"This route does not accept this method.","details":{"request_id":"%[unique-id]"}}' hdr Allow %[var(txn.allowed_methods)]`,
  certificateMissing: refusedCertificate('ERR_CLIENT_CERTIFICATE_REQUIRED', 'This host requires a client certificate.'),
  certificateExpired: refusedCertificate('ERR_CLIENT_CERTIFICATE_REFUSED', 'The client certificate has expired.'),
  certificateRefused: refusedCertificate(
    'ERR_CLIENT_CERTIFICATE_REFUSED',
    'The client certificate is not accepted here.',
  ),
  badHost: answer(400, 'ERR_BAD_HOST', 'The Host header must be a host name or an address, with an optional port.'),
  badForwardedFor: answer(
    400,
    'ERR_BAD_FORWARDED_FOR',
    'The proxy in front of this edge must name the client, in X-Forwarded-For or by the PROXY protocol.',
  ),
  ambiguousPath: answer(
    400,
    'ERR_AMBIGUOUS_PATH',
    'Servers disagree on what this path means: it has an encoded slash, a backslash, or a dot segment with parameters.',
  ),
  notAllowed: `${answer(405, 'ERR_METHOD_NOT_ALLOWED', 'This edge does not accept CONNECT and TRACE.')} hdr Allow 'GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS'`,
  misdirected: answer(421, 'ERR_MISDIRECTED', 'This connection was opened for another edge. Open one for this host.'),
  useHttps: answer(308, 'ERR_USE_HTTPS', 'This host is served over HTTPS only.'),
  notFound: answer(404, 'ERR_NO_ROUTE', 'Nothing is served under this host and path.'),
  timeout: answer(...timeout),
  noWebsocket: answer(400, 'ERR_NO_WEBSOCKET', 'This route does not accept WebSockets.'),
  internal: answer(500, 'ERR_EDGE', 'The edge could not handle the request.'),
  badGateway: answer(502, 'ERR_BAD_GATEWAY', 'The upstream gave no valid answer.'),
  overLimit: `status 503 content-type application/json lf-string '{"error_code":"ERR_EDGE_LIMIT","status_code":503,"msg":"Too many requests at once.","details":{"limit":"%[var(txn.over)]"}}' hdr Retry-After 1`,
  rateLimited: `status 429 content-type application/json lf-string '{"error_code":"ERR_ROUTE_LIMIT","status_code":429,"msg":"Too many requests for this route. Try again later.","details":{"request_id":"%[unique-id]"}}' hdr Retry-After %[var(txn.rate_reset)] hdr RateLimit-Policy '"route";q=%[var(txn.rate_requests)];w=%[var(txn.rate_seconds)]' hdr RateLimit '"route";r=0;t=%[var(txn.rate_reset)]'`,
  allDown: answer(503, 'ERR_NO_HEALTHY_BACKEND', 'Every server for this route fails its health checks.'),
  unavailable: answer(503, 'ERR_NO_BACKEND', 'No upstream can be reached for this route.'),
  draining: answer(503, 'ERR_DRAINING', 'This node is going away. Open a new connection.'),
  notReady: answer(503, 'ERR_NOT_READY', 'This node has not read everything it has to enforce yet.'),
  changing: answer(503, 'ERR_NOT_READY', 'The rules of this route are changing. Try again.'),
  gatewayTimeout: answer(504, 'ERR_GATEWAY_TIMEOUT', 'The upstream took too long to answer.'),
}

/**
 * HAProxy's parser answers what it cannot read before there is a request, hence without an id, and takes nothing but
 * whole answers from files.
 */
const rawAnswers = [
  [400, 'Bad Request', 'ERR_BAD_REQUEST', 'The request is not valid HTTP, or its headers are too large.'],
  [408, 'Request Timeout', timeout[1], timeout[2]],
  [414, 'URI Too Long', 'ERR_BAD_REQUEST', 'The request line is too long.'],
  [422, 'Unprocessable Content', 'ERR_BAD_REQUEST', 'The edge does not know this transfer coding.'],
  [431, 'Request Header Fields Too Large', 'ERR_BAD_REQUEST', 'The headers are too large.'],
  [500, 'Internal Server Error', 'ERR_EDGE', 'The edge could not handle the request.'],
  [501, 'Not Implemented', 'ERR_BAD_REQUEST', 'The edge does not know this transfer coding.'],
] as const
const rawFile = (settings: ProxySettings, status: number): string => join(answerFolder(settings), `${status}.http`)

export const parserAnswers = (settings: ProxySettings): string =>
  rawAnswers.map(([status]) => `  errorfile ${status} ${quoted(rawFile(settings, status))}\n`).join('')

export async function writeAnswerFiles(settings: ProxySettings, files: Files): Promise<void> {
  await files.makeFolder(answerFolder(settings), 0o700)
  for (const [status, reason, code, msg] of rawAnswers) {
    const body = errorBody(status, code, msg)
    const head = [
      `HTTP/1.1 ${status} ${reason}`,
      `Content-Length: ${Buffer.byteLength(body)}`,
      'Content-Type: application/json',
      'Cache-Control: no-cache',
      'Connection: close',
    ]
    await writeIfDifferent(files, rawFile(settings, status), `${head.join('\r\n')}\r\n\r\n${body}`)
  }
}
