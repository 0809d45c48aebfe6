import { lazy, Suspense, useEffect } from 'react'
import { createBrowserRouter, Link, Outlet, ScrollRestoration, useMatches } from 'react-router'
import { $api } from './api/client.ts'
import { Problem } from './api/problem.ts'
import { type Page, pageRoutes } from './pages.tsx'
import { Shell } from './shell.tsx'
import { Button } from './ui/button.tsx'
import { Skeleton } from './ui/loading.tsx'
import { PageHeader } from './ui/page_header.tsx'
import { NotForMembers } from './ui/states.tsx'
import { UnsavedGuard } from './ui/unsaved.tsx'

// Lazy: people with a session do not need it.
const SignIn = lazy(async () => ({ default: (await import('./sign_in.tsx')).SignIn }))

// Opened by `gatehouse login`, so no menu lists it.
const commandRoute = {
  path: '/cli-login',
  lazy: { Component: async () => (await import('./pages/cli_login.tsx')).CliLogin },
}

// For people without a session, so it is outside the part that requires one.
const invitationRoute = {
  path: '/invitation',
  HydrateFallback: () => <Skeleton lines={6} />,
  lazy: { Component: async () => (await import('./pages/invitation.tsx')).Invitation },
}

// Shows every component in its states to developers. Excluded from production builds.
const developmentRoutes = import.meta.env.DEV
  ? [
      {
        path: '/components',
        lazy: { Component: async () => (await import('./pages/components.tsx')).Components },
      },
    ]
  : []

/** Paths are relative to the dashboard's base URL: `/`, `/keys`, `/policies/ipp_…`. */
export const createRouter = () =>
  createBrowserRouter(
    [
      invitationRoute,
      {
        Component: App,
        children: [
          {
            // Inside the menu, so that people can leave a broken page.
            ErrorBoundary: PageFailed,
            HydrateFallback: () => <Skeleton lines={8} />,
            children: [...pageRoutes, commandRoute, ...developmentRoutes, { path: '*', Component: NotFound }],
          },
        ],
      },
    ],
    { basename: '/dashboard' },
  )

function App() {
  const caller = $api.useQuery('get', '/caller')
  const page = useMatches().at(-1)?.handle as Page | undefined
  const ended = caller.error instanceof Problem && caller.error.status === 401
  const isSignedIn = caller.data !== undefined && !ended
  useEffect(() => {
    if (!isSignedIn) document.title = 'Sign in · Gatehouse'
  }, [isSignedIn])

  if (caller.isPending) return <Skeleton lines={6} />
  if (!caller.data || ended)
    return (
      <Suspense>
        <SignIn hadSession={caller.data !== undefined} problem={ended ? undefined : caller.error} />
      </Suspense>
    )
  return (
    <UnsavedGuard>
      <Shell current={page?.path} caller={caller.data}>
        {page?.isForAdmins && caller.data.role !== 'admin' ? <NotForMembers title={page.title} /> : <Outlet />}
        <ScrollRestoration />
      </Shell>
    </UnsavedGuard>
  )
}

function NotFound() {
  return (
    <>
      <PageHeader title="Page not found" />
      <p>
        This page does not exist. Go to the <Link to="/">overview</Link>.
      </p>
    </>
  )
}

/** Usually the page was opened before an upgrade and requests a chunk that no longer exists. */
function PageFailed() {
  return (
    <>
      <PageHeader title="Something went wrong" />
      <div className="note refused" role="alert">
        <div>
          <p className="strong">This page could not be loaded.</p>
          <p>The dashboard may have been upgraded since you opened it. Reload to get the current version.</p>
          <Button onPress={() => location.reload()}>Reload</Button>
        </div>
      </div>
    </>
  )
}
