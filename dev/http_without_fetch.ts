// Replaces `import … from 'node:http'` in test processes, which are not bundled (bundle.ts). The import reads every
// export of the module, and three of them, among them WebSocket, load all of `fetch`: 60 ms of processor time per start.
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
