// Stands in for `import … from 'node:http'` in the processes of tests, which are no bundles (bundle.ts). The import reads every
// export of the module, and three of them, WebSocket among them, load all of `fetch`: 60 ms of processor time for each start.
const http = process.getBuiltinModule('node:http')
// biome-ignore lint/style/noDefaultExport: packages import it by default.
export default http
export const {
  METHODS,
  STATUS_CODES,
  Agent,
  ClientRequest,
  IncomingMessage,
  OutgoingMessage,
  Server,
  ServerResponse,
  createServer,
  validateHeaderName,
  validateHeaderValue,
  get,
  request,
  setMaxIdleHTTPParsers,
  globalAgent,
  maxHeaderSize,
} = http
