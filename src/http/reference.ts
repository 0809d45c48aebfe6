import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { securityHeaders } from './dashboard.ts'
import { type ApiDocument, llmsText } from './llms.ts'
import { preferred } from './negotiate.ts'

const page = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Gatehouse API</title><link rel="stylesheet" href="swagger-ui.css"></head><body>
<div id="reference">This page needs JavaScript. Without it, see <a href="../openapi.json">openapi.json</a>.</div>
<script src="swagger-ui-bundle.js"></script><script src="start.js"></script></body></html>
`

// The token stays in the page's memory only. No validator, because that would be a third-party server.
const start = `SwaggerUIBundle({
  url: '../openapi.json',
  dom_id: '#reference',
  deepLinking: true,
  docExpansion: 'none',
  defaultModelsExpandDepth: 0,
  displayOperationId: true,
  persistAuthorization: false,
  validatorUrl: null,
  requestInterceptor: (request) => {
    request.headers['Service-Version'] = '2'
    return request
  },
})
`

type Content = { type: string; make: () => Promise<string | Buffer> | string }

/**
 * The description of the API, for programs, people and language models: /openapi.json, /docs/ and /llms.txt. Whoever
 * reaches the port may read it, as one may read the sources; it holds nothing of any account. `folder` has Swagger UI's
 * files, which are served from here and load nothing from elsewhere.
 */
export function serveReference(
  app: FastifyInstance,
  makeDocument: () => object,
  folder: string,
  publicUrl: string,
): void {
  const html = 'text/html; charset=utf-8'
  const script = 'text/javascript; charset=utf-8'
  const contents: Record<string, Content> = {
    '/openapi.json': { type: 'application/json', make: () => JSON.stringify(makeDocument()) },
    '/llms.txt': { type: 'text/plain; charset=utf-8', make: () => llmsText(makeDocument() as ApiDocument, publicUrl) },
    '/docs/': { type: html, make: () => page },
    '/docs/start.js': { type: script, make: () => start },
    '/docs/swagger-ui-bundle.js': { type: script, make: () => readFile(join(folder, 'swagger-ui-bundle.js')) },
    '/docs/swagger-ui.css': { type: 'text/css; charset=utf-8', make: () => readFile(join(folder, 'swagger-ui.css')) },
  }
  for (const [path, { type, make }] of Object.entries(contents)) {
    // Made and compressed when it is first asked for: most processes never are.
    let made: Promise<{ plain: Buffer; compressed: Buffer }> | undefined
    const content = async () => {
      const plain = Buffer.from(await make())
      return { plain, compressed: await promisify(gzip)(plain) }
    }
    app.get(
      path,
      { config: { quiet: true }, exposeHeadRoute: true },
      async (request: FastifyRequest, reply: FastifyReply) => {
        made ??= content()
        const { plain, compressed } = await made.catch((error) => {
          made = undefined
          throw error
        })
        reply.headers(securityHeaders).header('Vary', 'Accept-Encoding').type(type)
        if (!preferred(request.raw.headers['accept-encoding'], ['gzip'], 'identity')) return reply.send(plain)
        return reply.header('Content-Encoding', 'gzip').send(compressed)
      },
    )
  }
  app.get('/docs', { config: { quiet: true }, exposeHeadRoute: true }, async (_request, reply) =>
    reply.redirect(`${publicUrl}/docs/`, 308),
  )
}
