import { lazy, type ReactNode, Suspense, useId, useState } from 'react'
import { Link } from 'react-router'
import type { Shapes } from './api/client.ts'
import { Live } from './live.tsx'
import { groups, visiblePages } from './pages.tsx'
import { LiveNodes } from './shell/live_nodes.tsx'
import { Person } from './shell/person.tsx'
import { Search } from './shell/search.tsx'
import { type PageMark, useMarks } from './shell/use_marks.ts'
import { Icon } from './ui/icons.tsx'
import { Mark } from './ui/mark.tsx'
import { State } from './ui/state.tsx'

// Lazy: most people have nothing to decide.
const Notes = lazy(async () => ({ default: (await import('./shell/notes.tsx')).Notes }))

type Props = { current: string | undefined; caller: Shapes['Caller']; children: ReactNode }

export function Shell({ current, caller, children }: Props) {
  const [menuOpen, setMenuOpen] = useState(false)
  const close = () => setMenuOpen(false)
  const marks = useMarks(caller.role === 'admin')
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
          {caller.role === 'admin' && <LiveNodes isShort />}
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
                marks={marks}
                onOpen={close}
              />
            ))}
          </nav>
          {caller.role === 'admin' && <LiveNodes />}
          <div className="person-row">
            <Person caller={caller} />
            {visiblePages(caller.role)
              .filter(({ group }) => group === 'person')
              .map(({ path, title, icon }) => (
                <Link
                  key={path}
                  to={path}
                  className="button quiet icon-only"
                  aria-label={title}
                  aria-current={path === current ? 'page' : undefined}
                  title={title}
                  onClick={close}
                >
                  <Icon name={icon} />
                </Link>
              ))}
          </div>
        </div>
      </header>
      <main id="main" tabIndex={-1} className="sheet">
        <div className="page">
          <Suspense>
            <Notes />
          </Suspense>
          {children}
        </div>
      </main>
      <Live />
    </div>
  )
}

type GroupProps = {
  title: string
  pages: ReturnType<typeof visiblePages>
  current: string | undefined
  marks: ReadonlyMap<string, PageMark>
  onOpen: () => void
}

function PageGroup({ title, pages, current, marks, onOpen }: GroupProps) {
  if (pages.length === 0) return null
  return (
    <>
      {title && <h2>{title}</h2>}
      <ul>
        {pages.map((page) => (
          <PageLink
            key={page.path}
            page={page}
            isCurrent={page.path === current}
            mark={marks.get(page.path)}
            onOpen={onOpen}
          />
        ))}
      </ul>
    </>
  )
}

type LinkProps = {
  page: ReturnType<typeof visiblePages>[number]
  isCurrent: boolean
  mark: PageMark | undefined
  onOpen: () => void
}

function PageLink({ page: { path, title, icon }, isCurrent, mark, onOpen }: LinkProps) {
  const meaning = useId()
  return (
    <li>
      <Link
        to={path}
        aria-current={isCurrent ? 'page' : undefined}
        aria-describedby={mark && meaning}
        title={mark ? `${title}: ${mark.meaning}` : title}
        onClick={onOpen}
      >
        <Icon name={icon} />
        <span>{title}</span>
        {mark?.count ? <b className="page-count">{mark.count}</b> : mark && <State health={mark.health} />}
      </Link>
      {mark && (
        <span id={meaning} className="for-readers">
          {mark.meaning}
        </span>
      )}
    </li>
  )
}
