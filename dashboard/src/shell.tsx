import { useMutation, useQueryClient } from '@tanstack/react-query'
import { type ReactNode, useState } from 'react'
import { Link } from 'react-router'
import type { Shapes } from './api/client.ts'
import { signOut } from './api/session.ts'
import { Live } from './live.tsx'
import { ThemeSwitch } from './theme.tsx'
import { Button } from './ui/button.tsx'
import { Icon, type IconName } from './ui/icons.tsx'
import { useDiscardAll } from './ui/unsaved.tsx'

type Props = {
  pages: readonly { path: string; title: string; icon: IconName }[]
  current: string | undefined
  caller: Shapes['Caller']
  children: ReactNode
}

export function Shell({ pages, current, caller, children }: Props) {
  const [menuOpen, setMenuOpen] = useState(false)
  const client = useQueryClient()
  const discardAll = useDiscardAll()
  const leave = useMutation({
    mutationFn: signOut,
    // Also when it failed: what was on the screen is not for the next person in front of it.
    onSettled: () => {
      client.clear()
      location.assign('/dashboard/')
    },
  })
  return (
    <div className="shell">
      <a className="skip" href="#main">
        Skip to content
      </a>
      <header className="side" data-open={menuOpen || undefined}>
        <div className="brand">
          <Link to="/" aria-label="Gatehouse, overview">
            <svg viewBox="0 0 32 32" aria-hidden="true" className="mark">
              <path d="M8 26V14a8 8 0 0 1 16 0v12M13 26V15a3 3 0 0 1 6 0v11" />
            </svg>
            Gatehouse
          </Link>
          <span className="menu">
            <Button
              kind="quiet"
              icon={menuOpen ? 'close' : 'menu'}
              iconOnly
              aria-expanded={menuOpen}
              onPress={() => setMenuOpen(!menuOpen)}
            >
              Menu
            </Button>
          </span>
        </div>
        <div className="drawer">
          <nav aria-label="Pages">
            <ul>
              {pages.map(({ path, title, icon }) => (
                <li key={path}>
                  <Link
                    to={path}
                    aria-current={path === current ? 'page' : undefined}
                    onClick={() => setMenuOpen(false)}
                  >
                    <Icon name={icon} />
                    {title}
                  </Link>
                </li>
              ))}
            </ul>
          </nav>
          <div className="who">
            <p>
              {caller.role === 'admin' ? 'Admin' : 'Member'} from{' '}
              <span className="mono">{caller.source_ip ?? 'an unknown address'}</span>
            </p>
            <ThemeSwitch />
            <Button
              kind="quiet"
              icon="leave"
              isPending={leave.isPending}
              onPress={() => discardAll(() => leave.mutate())}
            >
              Sign out
            </Button>
          </div>
        </div>
      </header>
      <main id="main" tabIndex={-1}>
        {children}
      </main>
      <Live />
    </div>
  )
}
