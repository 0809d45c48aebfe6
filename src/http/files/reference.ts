import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { FastifyInstance } from 'fastify'
import { type ApiDocument, llmsText } from './llms.ts'
import { type PublicFile, publicFile } from './public_files.ts'
import { page, start } from './reference_page.ts'

/**
 * Serves the API description as /openapi.json, /docs/reference/ and /llms.txt. It is public like the sources, and holds
 * no data of accounts. `folder` contains Swagger UI, so the page loads nothing from third parties.
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
