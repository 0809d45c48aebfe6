import type { Shapes } from '../../api/client.ts'

export type Request = Shapes['Request']

/** Limit of rows on the page, however long it is open. Keeps the latest. */
export const mostRows = 1_000

/** Newest first, without duplicates, at most `mostRows`. */
export function merged(rows: readonly Request[], more: readonly Request[]): readonly Request[] {
  if (more.length === 0) return rows
  const byId = new Map<string, Request>()
  for (const request of [...more, ...rows]) if (!byId.has(request.id)) byId.set(request.id, request)
  const all = [...byId.values()].sort(newestFirst)
  return all.length > mostRows ? all.slice(0, mostRows) : all
}

/** Both have a fixed length, so their lexical order is chronological. */
function newestFirst(a: Request, b: Request): number {
  if (a.created_at !== b.created_at) return a.created_at < b.created_at ? 1 : -1
  return a.id < b.id ? 1 : -1
}

/** Buffers requests to be shown later. Keeps only the latest, because no more would be shown. */
export function appendBounded(waiting: Request[], request: Request): void {
  waiting.push(request)
  if (waiting.length > mostRows) waiting.splice(0, waiting.length - mostRows)
}

const requestId = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/
const operationId = /^op_[0-7][0-9a-hjkmnp-tv-z]{25}$/

/** Finds the id of a request or a refused API call in pasted text, ignoring case and spaces. */
export function requestIdIn(text: string): string | undefined {
  const id = text.trim().toLowerCase()
  return requestId.test(id) || operationId.test(id) ? id : undefined
}

/** When a request with this id arrived. Undefined for an operation. */
export function momentOf(id: string): number | undefined {
  return requestId.test(id) ? Number.parseInt(id.replaceAll('-', '').slice(0, 12), 16) : undefined
}
