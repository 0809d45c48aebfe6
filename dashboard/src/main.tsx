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

// The key may be deleted while its session looks at a page: the first query that fails asks who we are.
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
      // A refusal stays one however often it is asked for; what did not answer may answer next time.
      retry: (count, error) => count < 2 && (!(error instanceof Problem) || error.status === 0 || error.status >= 500),
      // Long enough that the parts of one page read once, short enough that a newly opened page is current.
      staleTime: 300,
    },
  },
})

// Every part of a page asks who is signed in.
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
