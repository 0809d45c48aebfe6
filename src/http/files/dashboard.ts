import { stat } from 'node:fs/promises'
import { extname, join } from 'node:path'
import fastifyStatic from '@fastify/static'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { Refusal } from '../../kernel/errors.ts'

/** Files of other types in the folder get 404. */
export const fileTypes: Record<string, string> = {
  '.html': 'text/html; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.json': 'application/json',
  '.css': 'text/css; charset=utf-8',
  '.svg': 'image/svg+xml',
  '.png': 'image/png',
  '.ico': 'image/x-icon',
  '.woff2': 'font/woff2',
  '.txt': 'text/plain; charset=utf-8',
}

// Allows scripts, styles and requests of our own origin only, so injected content can neither run nor exfiltrate. Style
// sheets contain data: images.
const contentSecurityPolicy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "font-src 'self'",
  "base-uri 'none'",
  "form-action 'self'",
  "frame-ancestors 'none'",
].join('; ')

/** Headers of every page for browsers. */
export const securityHeaders = {
  'Content-Security-Policy': contentSecurityPolicy,
  'X-Frame-Options': 'DENY',
  'X-Content-Type-Options': 'nosniff',
  'Referrer-Policy': 'no-referrer',
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Resource-Policy': 'same-origin',
}

const notBuilt = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Gatehouse</title></head><body>
<h1>The dashboard is not built</h1>
<p>This is the right place, but its files are missing. In a checkout of Gatehouse run <code>npm run build</code>, and
load this page again. The API works without it.</p>
</body></html>
`

/** Letters, digits, `_`, `-` and single inner dots: rules out paths that leave the folder, and hidden files. */
const plainPath = /^(?:[\w-]+(?:\.[\w-]+)*\/)*[\w-]+(?:\.[\w-]+)*$/

/** Serves the dashboard under /dashboard/. Its files are public; all protected data comes from the API. */
export function serveDashboard(app: FastifyInstance, folder: string, publicUrl: string): void {
  const quiet = { config: { quiet: true }, exposeHeadRoute: true }
  app.register(fastifyStatic, {
    root: folder,
    // The route below decides which files exist and how a missing one is answered.
    serve: false,
    preCompressed: true,
    dotfiles: 'ignore',
    index: false,
    contentType: false,
    cacheControl: false,
    acceptRanges: false,
    // The folder is missing until the dashboard is built; the page says so.
    suppressWarning: true,
  })

  async function serve(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const asked = (request.params as { '*': string })['*']
    // Client-side routing: every page is index.html.
    const path = extname(asked) === '' ? 'index.html' : asked
    reply.headers(securityHeaders)
    const type = fileTypes[extname(path)]
    const isThere = type !== undefined && plainPath.test(path) && (await isFile(join(folder, path)))
    if (isThere)
      return reply
        .headers({ 'Content-Type': type, 'Cache-Control': cachingOf(path), Vary: 'Accept-Encoding' })
        .sendFile(path)
    if (path === 'index.html') return reply.code(404).headers({ 'Content-Type': type }).send(notBuilt)
    throw new Refusal('ERR_ROUTE_NOT_FOUND', 'The dashboard has no such file.')
  }

  app.get('/dashboard/*', quiet, serve)
  app.get('/dashboard', quiet, async (_request, reply) => reply.redirect(`${publicUrl}/dashboard/`, 308))
  app.get('/', quiet, async (request, reply) =>
    request.raw.headers.accept?.includes('text/html')
      ? reply.redirect(`${publicUrl}/dashboard/`, 302)
      : reply.callNotFound(),
  )
}

// Names under assets/ contain a hash of the content, so they can be cached forever. index.html refers to them and must
// not be cached.
function cachingOf(path: string): string {
  if (path.startsWith('assets/')) return 'public, max-age=31536000, immutable'
  return path === 'index.html' ? 'no-store' : 'public, max-age=3600'
}

async function isFile(path: string): Promise<boolean> {
  try {
    return (await stat(path)).isFile()
  } catch (error) {
    if (['ENOENT', 'ENOTDIR'].includes((error as NodeJS.ErrnoException).code ?? '')) return false
    throw error
  }
}
