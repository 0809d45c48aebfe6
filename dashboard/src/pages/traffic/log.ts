import type { Shapes } from '../../api/client.ts'

export type Request = Shapes['Request']

/** What the page holds at most, however long it is open and however much comes. The newest stay. */
export const mostRows = 1_000

/** Newest first, each request once, at most `mostRows`. */
export function merged(rows: readonly Request[], more: readonly Request[]): readonly Request[] {
  if (more.length === 0) return rows
  const byId = new Map<string, Request>()
  for (const request of [...more, ...rows]) if (!byId.has(request.id)) byId.set(request.id, request)
  const all = [...byId.values()].sort(newestFirst)
  return all.length > mostRows ? all.slice(0, mostRows) : all
}

/** Both are of a fixed length, so that the order of their letters is that of time. */
function newestFirst(a: Request, b: Request): number {
  if (a.created_at !== b.created_at) return a.created_at < b.created_at ? 1 : -1
  return a.id < b.id ? 1 : -1
}

/** The requests that wait to be shown: the newest of them, since no more than that would be. */
export function appendBounded(waiting: Request[], request: Request): void {
  waiting.push(request)
  if (waiting.length > mostRows) waiting.splice(0, waiting.length - mostRows)
}

const requestId = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/
const operationId = /^op_[0-7][0-9a-hjkmnp-tv-z]{25}$/

/** The id of a request, or of a refused call of the API, as people paste it: perhaps in capitals or with spaces. */
export function requestIdIn(text: string): string | undefined {
  const id = text.trim().toLowerCase()
  return requestId.test(id) || operationId.test(id) ? id : undefined
}

/** When a request with this id arrived. Undefined for an operation. */
export function momentOf(id: string): number | undefined {
  return requestId.test(id) ? Number.parseInt(id.replaceAll('-', '').slice(0, 12), 16) : undefined
}
