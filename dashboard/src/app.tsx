import { useQuery } from '@tanstack/react-query'
import { type ComponentType, lazy, Suspense, useEffect, useRef } from 'react'
import { Problem } from './api/problem.ts'
import { queries } from './api/queries.ts'
import { Link, usePath } from './router.tsx'
import { Shell } from './shell.tsx'
import { SignIn } from './sign_in.tsx'
import type { IconName } from './ui/icons.tsx'
import { Skeleton } from './ui/loading.tsx'

type Page = { path: string; title: string; icon: IconName; component: ComponentType<{ id?: string }> }

/** One chunk each, fetched when it is first opened. */
export const pages: readonly Page[] = [
  {
    path: '/',
    title: 'Overview',
    icon: 'overview',
    component: lazy(async () => ({ default: (await import('./pages/overview.tsx')).Overview })),
  },
  {
    path: '/keys',
    title: 'API keys',
    icon: 'keys',
    component: lazy(async () => ({ default: (await import('./pages/keys.tsx')).Keys })),
  },
  {
    path: '/policies',
    title: 'IP policies',
    icon: 'policies',
    component: lazy(async () => ({ default: (await import('./pages/policies.tsx')).Policies })),
  },
  {
    path: '/restrictions',
    title: 'IP restrictions',
    icon: 'restrictions',
    component: lazy(async () => ({ default: (await import('./pages/restrictions.tsx')).Restrictions })),
  },
  {
    path: '/edges',
    title: 'Edges and routes',
    icon: 'edges',
    component: lazy(async () => ({ default: (await import('./pages/edges.tsx')).Edges })),
  },
  {
    path: '/check',
    title: 'Check an address',
    icon: 'check',
    component: lazy(async () => ({ default: (await import('./pages/check.tsx')).Check })),
  },
  {
    path: '/audit',
    title: 'Audit',
    icon: 'audit',
    component: lazy(async () => ({ default: (await import('./pages/audit.tsx')).Audit })),
  },
]

const pageOf = (path: string): { page: Page | undefined; id: string | undefined } => {
  const [, first = '', id] = path.split('/')
  return { page: pages.find((page) => page.path === `/${first}`), id: id && decodeURIComponent(id) }
}

export function App() {
  const caller = useQuery({ ...queries.caller(), staleTime: 60_000 })
  const { page, id } = pageOf(usePath())
  const heading = useRef<HTMLHeadingElement>(null)
  const opened = useRef(page)
  const title = caller.data ? (page?.title ?? 'Page not found') : 'Sign in'
  useEffect(() => {
    document.title = `${title} · Gatehouse`
  }, [title])
  useEffect(() => {
    // A screen reader hears where it is now; on the first page the browser has said so already.
    if (opened.current !== page) heading.current?.focus()
    opened.current = page
  }, [page])

  if (caller.isPending) return <Skeleton lines={6} />
  const ended = caller.error instanceof Problem && caller.error.status === 401
  if (!caller.data || ended)
    return <SignIn hadSession={caller.data !== undefined} problem={ended ? undefined : caller.error} />
  return (
    <Shell pages={pages} current={page?.path} caller={caller.data}>
      <h1 ref={heading} tabIndex={-1}>
        {title}
      </h1>
      {page ? (
        <Suspense fallback={<Skeleton lines={8} />}>
          <page.component id={id} />
        </Suspense>
      ) : (
        <p>
          This page does not exist. Go to the <Link to="/">overview</Link>.
        </p>
      )}
    </Shell>
  )
}
