import { type Answer, type Call, type Connection, call } from './call.ts'
import { startProgress } from './output/progress.ts'

type Json = Record<string, unknown>

/** Follows next_page_uri to the end and returns all rows as a single page. */
export async function allPages(connection: Connection, listField: string, request: Call): Promise<Answer> {
  const progress = startProgress('read')
  const rows: unknown[] = []
  let query = request.query ?? {}
  for (;;) {
    const answer = await call(connection, { ...request, query })
    const body = JSON.parse(answer.text) as Json
    for (const row of body[listField] as unknown[]) {
      rows.push(row)
      progress.step('')
    }
    if (!body.next_page_uri) {
      progress.end()
      return { ...answer, text: JSON.stringify({ ...body, [listField]: rows }) }
    }
    // Only its query: the service's public URL may differ from the URL we were configured with.
    query = Object.fromEntries(new URL(String(body.next_page_uri)).searchParams)
  }
}
