// What the dashboard knows of the API, from the API: the types of openapi.json, its operations, and what to do about each
// error. Not committed, but made whenever the dashboard is checked or built, so that it cannot be older than its source.
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import openapiTS, { astToString } from 'openapi-typescript'
import { errorCatalog } from '../src/kernel/errors.ts'

const document = JSON.parse(await readFile(new URL('../openapi.json', import.meta.url), 'utf8'))
type Operation = {
  operationId: string
  summary: string
  responses: Record<string, { content?: Record<string, unknown> }>
}
for (const operations of Object.values<Record<string, Operation>>(document.paths)) {
  for (const operation of Object.values(operations)) {
    // client.ts says that it wants JSON, so that no call has to tell what it got.
    for (const { content } of Object.values(operation.responses)) if (content) delete content['text/plain']
  }
}
const operations = Object.values<Record<string, Operation>>(document.paths).flatMap((path) =>
  Object.entries(path).map(([method, { operationId, summary }]) => ({
    id: operationId,
    summary,
    isRead: method === 'get',
  })),
)
const hints = Object.fromEntries(Object.entries(errorCatalog).map(([code, { hint }]) => [code, hint]))

const folder = new URL('src/generated/', import.meta.url)
await mkdir(folder, { recursive: true })
await writeFile(new URL('openapi.d.ts', folder), astToString(await openapiTS(document)))
await writeFile(
  new URL('hints.ts', folder),
  `export const hints: Record<string, string> = ${JSON.stringify(hints, null, 2)}\n`,
)
await writeFile(
  new URL('operations.ts', folder),
  `export const operations: { id: string; summary: string; isRead: boolean }[] = ${JSON.stringify(operations, null, 2)}\n`,
)
