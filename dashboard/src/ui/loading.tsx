import type { UseQueryResult } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import { PageHeader } from './page_header.tsx'
import { ProblemNote } from './problem.tsx'
import { Unread } from './unread.ts'

/** Placeholder in the shape of the content. Shown immediately, because it is calmer than a spinner. */
export function Skeleton({ lines = 4 }: { lines?: number }) {
  return (
    <div className="skeleton" role="status">
      <span className="for-readers">Loading…</span>
      {Array.from({ length: lines }, (_, line) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: the lines have nothing but their place.
        <span key={line} />
      ))}
    </div>
  )
}

type Props<Data> = {
  query: UseQueryResult<Data, unknown>
  lines?: number
  /** Title and parent in case of an error, for pages whose header depends on the query. */
  title?: string
  parent?: { to: string; name: string }
  children: (data: Data) => ReactNode
}

/** Renders a query as data, skeleton or problem. Keeps existing data when a refresh fails, with unknown states. */
export function Loaded<Data>({ query, lines, title, parent, children }: Props<Data>) {
  if (query.data !== undefined)
    return (
      <Unread value={query.isError}>
        {query.isError && <ProblemNote error={query.error} retry={() => query.refetch()} />}
        {children(query.data)}
      </Unread>
    )
  if (query.isError && title !== undefined)
    return (
      <>
        <PageHeader title={title} {...(parent && { parent })} />
        <ProblemNote error={query.error} retry={() => query.refetch()} />
      </>
    )
  if (query.isError) return <ProblemNote error={query.error} retry={() => query.refetch()} />
  return <Skeleton lines={lines} />
}
