/**
 * The query of a list's next page; undefined after the last. Only the query of `next_page_uri` is used: the public URL of the
 * service may differ from the configured one, and a credential must not follow a link to another host.
 */
export const nextQuery = (nextPageUri: string | null | undefined): Record<string, string> | undefined =>
  nextPageUri ? Object.fromEntries(new URL(nextPageUri).searchParams) : undefined
