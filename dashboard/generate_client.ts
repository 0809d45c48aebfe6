// What our clients know of the API, from the API: for clients/typescript the types of openapi.json, and which creations take an
// Idempotency-Key; for the dashboard the operations, and what to do about each error. Not committed, but made whenever one
// of them is checked or built, so that it cannot be older than its source. It is here because the generator of types needs
// the TypeScript that only the dashboard's workspace has.
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import openapiTS, { astToString } from 'openapi-typescript'
import { errorCatalog } from '../src/kernel/errors.ts'

const document = JSON.parse(await readFile(new URL('../openapi.json', import.meta.url), 'utf8'))
type Operation = {
  operationId: string
  summary: string
  parameters?: { name?: string; $ref?: string }[]
  responses: Record<string, { content?: Record<string, unknown> }>
}
for (const operations of Object.values<Record<string, Operation>>(document.paths)) {
  for (const operation of Object.values(operations)) {
    // The client says that it wants JSON, so that no call has to tell what it got.
    for (const { content } of Object.values(operation.responses)) if (content) delete content['text/plain']
  }
}
const operations = Object.entries<Record<string, Operation>>(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, { operationId, summary }]) => ({
    id: operationId,
    call: `${method.toUpperCase()} ${path}`,
    summary,
    isRead: method === 'get',
  })),
)
const hints = Object.fromEntries(Object.entries(errorCatalog).map(([code, { hint }]) => [code, hint]))

/** A POST that is repeated with the same key is done once. */
const keyedPosts = Object.entries<Record<string, Operation>>(document.paths).flatMap(([path, { post }]) =>
  post?.parameters?.some(({ name, $ref }) => /Idempotency-?Key$/.test($ref ?? name ?? '')) ? [path] : [],
)

const write = async (folder: string, name: string, text: string) => {
  const place = new URL(`../${folder}/src/generated/`, import.meta.url)
  await mkdir(place, { recursive: true })
  await writeFile(new URL(name, place), text)
}
const client = 'clients/typescript'
await write(client, 'openapi.ts', astToString(await openapiTS(document)))
await write(
  client,
  'keyed_posts.ts',
  `export const keyedPosts = new Set<string>(${JSON.stringify(keyedPosts, null, 2)})\n`,
)
await write('dashboard', 'hints.ts', `export const hints: Record<string, string> = ${JSON.stringify(hints, null, 2)}\n`)
await write(
  'dashboard',
  'operations.ts',
  `export const operations: { id: string; call: string; summary: string; isRead: boolean }[] = ${JSON.stringify(operations, null, 2)}\n`,
)
