export const maxPageSize = 100

export type PageQuery = { limit?: number; before_id?: string }

/** Fetches one extra row: its presence indicates a next page without a second query. */
export const rowsToFetch = ({ limit = maxPageSize }: PageQuery): number => limit + 1

export type Page<Item> = { items: Item[]; uri: string; next_page_uri: string | null }

/** Drops the extra row and links to the next page, keeping the limit and all filters. */
export function toPage<Item extends { id: string }>(fetched: Item[], query: object, listUri: string): Page<Item> {
  const { limit = maxPageSize }: PageQuery = query
  const items = fetched.slice(0, limit)
  const last = items.at(-1)
  if (fetched.length === items.length || !last) return { items, uri: listUri, next_page_uri: null }
  return { items, uri: listUri, next_page_uri: pageUri(listUri, { ...query, before_id: last.id }) }
}

export function pageUri(listUri: string, query: object): string {
  const parameters = new URLSearchParams()
  for (const [name, value] of Object.entries(query)) if (value !== undefined) parameters.set(name, String(value))
  return `${listUri}?${parameters}`
}
