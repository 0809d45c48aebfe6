import { readdir, readFile } from 'node:fs/promises'
import { extname, join, relative } from 'node:path'
import type { FastifyInstance } from 'fastify'
import { Refusal } from '../../kernel/errors.ts'
import { fileTypes, securityHeaders } from './dashboard.ts'
import { type PublicFile, publicFile } from './public_files.ts'

const notBuilt = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Gatehouse</title></head><body>
<h1>The documentation is not built</h1>
<p>In a checkout of Gatehouse run <code>npm run docs</code>, and restart the service. The
<a href="reference/">API reference</a> works without it.</p>
</body></html>
`

/** Serves the documentation under /docs/. The list of files is read at the first request. */
export function serveDocs(app: FastifyInstance, folder: string, publicUrl: string): void {
  let files: Promise<Map<string, PublicFile>> | undefined
  const quiet = { config: { quiet: true }, exposeHeadRoute: true }
  app.get('/docs/*', quiet, async (request, reply) => {
    files ??= filesIn(folder)
    const found = await files.catch((error) => {
      files = undefined
      throw error
    })
    const path = (request.params as { '*': string })['*'] || 'index.html'
    const file = found.get(path)
    if (file) return file(request, reply)
    if (path === 'index.html')
      return reply.code(404).headers(securityHeaders).type('text/html; charset=utf-8').send(notBuilt)
    throw new Refusal('ERR_ROUTE_NOT_FOUND', 'The documentation has no such page.')
  })
  app.get('/docs', quiet, async (_request, reply) => reply.redirect(`${publicUrl}/docs/`, 308))
}

async function filesIn(folder: string): Promise<Map<string, PublicFile>> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true }).catch((error) => {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return []
    throw error
  })
  return new Map(
    entries.flatMap((entry): [string, PublicFile][] => {
      const type = fileTypes[extname(entry.name)]
      const file = join(entry.parentPath, entry.name)
      return entry.isFile() && type ? [[relative(folder, file), publicFile(type, () => readFile(file))]] : []
    }),
  )
}
