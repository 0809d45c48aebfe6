import { once } from 'node:events'
import { createServer, type RequestListener, type Server } from 'node:http'
import { createRequire } from 'node:module'
import fastify from 'fastify'
import type { Scope } from '../../harness/control_plane.ts'

/** A server that reads paths in its own way. It answers `ADMIN` below /admin, `EXACT` at /exact, and `open` for the rest. */
export type Reader = { readonly name: string; readonly port: number }

const load = createRequire(import.meta.url)
type Express = () => RequestListener & Record<'use' | 'get', (path: string | Answering, answering?: Answering) => void>
type Answering = (request: unknown, response: { send: (text: string) => void }) => void

const portOf = (server: Pick<Server, 'address'>): number => (server.address() as { port: number }).port
async function listening(scope: Scope, name: string, listener: RequestListener): Promise<Reader> {
  const server = createServer(listener).listen(0, '127.0.0.1')
  await once(server, 'listening')
  scope.after(async () => {
    server.closeAllConnections()
    server.close()
  })
  return { name, port: portOf(server) }
}

export const handlerOf = (path: string): string => {
  if (path === '/admin' || path.startsWith('/admin/')) return 'ADMIN'
  return path === '/exact' ? 'EXACT' : 'open'
}

export const startNode = (scope: Scope): Promise<Reader> =>
  listening(scope, 'node', (request, response) => {
    const path = pathname(request.url ?? '')
    response.end(path === undefined ? 'unreadable' : handlerOf(path))
  })
const pathname = (url: string): string | undefined => URL.parse(url, 'http://localhost')?.pathname

/** Does everything that any of them does: decodes twice, cuts parameters, ignores case, and resolves what is left. */
export const startLenient = (scope: Scope): Promise<Reader> =>
  listening(scope, 'lenient', (request, response) => {
    const decode = (text: string) =>
      text.replaceAll(/%([0-9a-f]{2})/gi, (_, code) => String.fromCharCode(Number.parseInt(code, 16)))
    const text = decode(decode((request.url ?? '').split('?')[0] ?? '')).replaceAll('\\', '/')
    const [path = ''] = text.replaceAll(/;[^/]*/g, '').split(/[?#\0]/)
    const resolved = pathname(path.replaceAll(/\/+/g, '/')) ?? ''
    response.end(handlerOf(resolved.toLowerCase().replace(/(?<=.)\/$/, '')))
  })

export const startExpress = (scope: Scope, version: 4 | 5): Promise<Reader> => {
  const app = (load(`express${version}`) as Express)()
  app.use('/admin', (_request, response) => response.send('ADMIN'))
  app.get('/exact', (_request, response) => response.send('EXACT'))
  app.use((_request, response) => response.send('open'))
  return listening(scope, `express ${version}`, app)
}

export async function startFastify(scope: Scope, isLenient: boolean): Promise<Reader> {
  const options = { caseSensitive: !isLenient, ignoreTrailingSlash: isLenient, ignoreDuplicateSlashes: isLenient }
  const app = fastify({ forceCloseConnections: true, routerOptions: options })
  for (const path of ['/admin', '/admin/*']) app.get(path, async () => 'ADMIN')
  app.get('/exact', async () => 'EXACT')
  app.setNotFoundHandler(async (_request, reply) => reply.code(200).send('open'))
  await app.listen({ port: 0, host: '127.0.0.1' })
  scope.after(() => app.close())
  return { name: isLenient ? 'fastify, lenient' : 'fastify', port: portOf(app.server) }
}
