import { MutationCache, QueryCache, QueryClient, QueryClientProvider } from '@tanstack/react-query'
import { StrictMode } from 'react'
import { createRoot } from 'react-dom/client'
import { RouterProvider } from 'react-router/dom'
import { Problem } from './api/problem.ts'
import { createRouter } from './app.tsx'
import './styles/tokens.css'
import './styles/fonts.css'
import './styles/base.css'
import './styles/controls.css'
import './styles/overlays.css'
import './styles/shell.css'
import './styles/page.css'
import './styles/table.css'
import './styles/pages.css'
import './styles/chart.css'
import './styles/check.css'
import './styles/traffic.css'

const isSignedOut = (error: unknown): boolean => error instanceof Problem && error.status === 401

// The key may be deleted while a page is open: after the first failure, check whether the session still exists.
function onError(error: unknown): void {
  if (isSignedOut(error)) client.invalidateQueries({ queryKey: ['get', '/caller'] })
}
const client = new QueryClient({
  queryCache: new QueryCache({ onError: (error, query) => query.queryKey[1] !== '/caller' && onError(error) }),
  mutationCache: new MutationCache({
    onError: (error, _sent, _context, mutation) => mutation.options.mutationKey?.[0] !== 'sign in' && onError(error),
  }),
  defaultOptions: {
    queries: {
      // Retrying does not help against a refusal, but may if there was no answer.
      retry: (count, error) => count < 2 && (!(error instanceof Problem) || error.status === 0 || error.status >= 500),
      // Long enough for the parts of a page to share one read, short enough for a newly opened page to be current.
      staleTime: 300,
    },
  },
})

// Every part of a page reads the caller.
client.setQueryDefaults(['get', '/caller'], { staleTime: 60_000 })

const root = document.getElementById('root')
if (root)
  createRoot(root).render(
    <StrictMode>
      <QueryClientProvider client={client}>
        <RouterProvider router={createRouter()} />
      </QueryClientProvider>
    </StrictMode>,
  )
