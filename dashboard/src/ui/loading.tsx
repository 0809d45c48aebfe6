import type { UseQueryResult } from '@tanstack/react-query'
import type { ReactNode } from 'react'
import { ProblemNote } from './problem.tsx'

/** The shape of what is to come. It appears at once: something to see is calmer than something that turns. */
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

type Props<Data> = { query: UseQueryResult<Data, unknown>; lines?: number; children: (data: Data) => ReactNode }

/** A query as its data, its skeleton, or its problem. Data that is there stays when a refresh fails. */
export function Loaded<Data>({ query, lines, children }: Props<Data>) {
  if (query.data !== undefined)
    return (
      <>
        {query.isError && <ProblemNote error={query.error} retry={() => query.refetch()} />}
        {children(query.data)}
      </>
    )
  if (query.isError) return <ProblemNote error={query.error} retry={() => query.refetch()} />
  return <Skeleton lines={lines} />
}
