import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { FastifyInstance } from 'fastify'
import { type ApiDocument, llmsText } from './llms.ts'
import { type PublicFile, publicFile } from './public_files.ts'
import { page, start } from './reference_page.ts'

/**
 * The description of the API, for programs, people and language models: /openapi.json, /docs/reference/ and /llms.txt.
 * Every client that reaches the port may read it, as one may read the sources; it holds no account's data. `folder` has Swagger
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
