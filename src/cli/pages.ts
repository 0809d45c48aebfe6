import { nextQuery } from '../../clients/typescript/src/pages.ts'
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
    const next = nextQuery(body.next_page_uri as string | null)
    if (!next) {
      progress.end()
      return { ...answer, text: JSON.stringify({ ...body, [listField]: rows }) }
    }
    query = next
  }
}
