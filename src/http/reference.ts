import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { FastifyInstance } from 'fastify'
import { type ApiDocument, llmsText } from './llms.ts'
import { type PublicFile, publicFile } from './public_files.ts'

const page = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Gatehouse API</title><link rel="stylesheet" href="swagger-ui.css"></head><body>
<div id="reference">This page needs JavaScript. Without it, see <a href="../../openapi.json">openapi.json</a>.</div>
<script src="swagger-ui-bundle.js"></script><script src="start.js"></script></body></html>
`

// The token stays in the page's memory only. No validator, because that would be a third-party server.
const start = `SwaggerUIBundle({
  url: '../../openapi.json',
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

/**
 * The description of the API, for programs, people and language models: /openapi.json, /docs/reference/ and /llms.txt.
 * Whoever reaches the port may read it, as one may read the sources; it holds nothing of any account. `folder` has Swagger
 * UI's files, which are served from here and load nothing from elsewhere.
 */
export function serveReference(
  app: FastifyInstance,
  makeDocument: () => object,
  folder: string,
  publicUrl: string,
): void {
  const html = 'text/html; charset=utf-8'
  const script = 'text/javascript; charset=utf-8'
  const css = 'text/css; charset=utf-8'
  const files: Record<string, PublicFile> = {
    '/openapi.json': publicFile('application/json', () => JSON.stringify(makeDocument())),
    '/llms.txt': publicFile('text/plain; charset=utf-8', () => llmsText(makeDocument() as ApiDocument, publicUrl)),
    '/docs/reference/': publicFile(html, () => page),
    '/docs/reference/start.js': publicFile(script, () => start),
    '/docs/reference/swagger-ui-bundle.js': publicFile(script, () => readFile(join(folder, 'swagger-ui-bundle.js'))),
    '/docs/reference/swagger-ui.css': publicFile(css, () => readFile(join(folder, 'swagger-ui.css'))),
  }
  for (const [path, file] of Object.entries(files))
    app.get(path, { config: { quiet: true }, exposeHeadRoute: true }, file)
  app.get('/docs/reference', { config: { quiet: true }, exposeHeadRoute: true }, async (_request, reply) =>
    reply.redirect(`${publicUrl}/docs/reference/`, 308),
  )
}
