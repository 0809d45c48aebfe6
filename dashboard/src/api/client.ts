import createClient from 'openapi-fetch'
import type { components, paths } from '../generated/openapi.d.ts'
import { noteGeneration } from './generation.ts'
import { problemOf, unreachable } from './problem.ts'

export type Shapes = components['schemas']

/** The only way to the API. Same origin, with the session's cookie, and the header that no other site can send. */
export const api = createClient<paths>({
  baseUrl: location.origin,
  credentials: 'same-origin',
  headers: { 'Service-Version': '2', Accept: 'application/json' },
})
api.use({
  onResponse({ response }) {
    const generation = response.headers.get('Service-Generation')
    if (response.ok && generation) noteGeneration(Number(generation))
  },
})

type Answer<Data> = { data?: Data; error?: unknown; response: Response }

/** What was answered, or the problem thrown, for TanStack Query to hold. */
export async function answerOf<Data>(call: Promise<Answer<Data>>): Promise<Data> {
  const { data, error, response } = await call.catch(() => {
    throw unreachable()
  })
  if (!response.ok) throw problemOf(response.status, error)
  return data as Data
}

/** Follows a list to its end, at most `pages` of them: what a page shows whole, or offers to choose from. */
export async function everyPage<Row extends { id: string }>(
  page: (beforeId: string | undefined) => Promise<{ rows: Row[]; more: boolean }>,
  pages = 10,
): Promise<Row[]> {
  const all: Row[] = []
  for (let count = 0; count < pages; count++) {
    const { rows, more } = await page(all.at(-1)?.id)
    all.push(...rows)
    if (!more) break
  }
  return all
}
