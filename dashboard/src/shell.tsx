import { type ReactNode, useState } from 'react'
import { Link } from 'react-router'
import type { Shapes } from './api/client.ts'
import { Live } from './live.tsx'
import { groups, visiblePages } from './pages.tsx'
import { LiveNodes } from './shell/live_nodes.tsx'
import { Person } from './shell/person.tsx'
import { Search } from './shell/search.tsx'
import { Icon } from './ui/icons.tsx'
import { Mark } from './ui/mark.tsx'

type Props = { current: string | undefined; caller: Shapes['Caller']; children: ReactNode }

export function Shell({ current, caller, children }: Props) {
  const [menuOpen, setMenuOpen] = useState(false)
  const close = () => setMenuOpen(false)
  return (
    <div className="shell">
      <a className="skip" href="#main">
        Skip to content
      </a>
      <header className="side" data-open={menuOpen || undefined}>
        <div className="side-top">
          <button
            type="button"
            className="more menu-button"
            aria-label="Menu"
            aria-expanded={menuOpen}
            onClick={() => setMenuOpen(!menuOpen)}
          >
            <Icon name={menuOpen ? 'close' : 'menu'} />
          </button>
          <Link to="/" className="account" onClick={close}>
            <Mark />
            <span className="grow">
              <b>{caller.account_name}</b>
              <small>Gatehouse</small>
            </span>
          </Link>
          <Search caller={caller} />
        </div>
        <div className="drawer">
          <nav aria-label="Pages" className="pages">
            {groups.map((group) => (
              <PageGroup
                key={group}
                title={group}
                pages={visiblePages(caller.role).filter((page) => page.group === group)}
                current={current}
                onOpen={close}
              />
            ))}
          </nav>
          {caller.role === 'admin' && <LiveNodes />}
          <Person caller={caller} />
        </div>
      </header>
      <main id="main" tabIndex={-1} className="sheet">
        <div className="page">{children}</div>
      </main>
      <Live />
    </div>
  )
}

type GroupProps = {
  title: string
  pages: ReturnType<typeof visiblePages>
  current: string | undefined
  onOpen: () => void
}

function PageGroup({ title, pages, current, onOpen }: GroupProps) {
  if (pages.length === 0) return null
  return (
    <>
      {title && <h2>{title}</h2>}
      <ul>
        {pages.map(({ path, title, icon }) => (
          <li key={path}>
            <Link to={path} aria-current={path === current ? 'page' : undefined} title={title} onClick={onOpen}>
              <Icon name={icon} />
              <span>{title}</span>
            </Link>
          </li>
        ))}
      </ul>
    </>
  )
}
