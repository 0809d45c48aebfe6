import { type ReactNode, useEffect, useRef } from 'react'
import { Link } from 'react-router'
import { useMayChange } from '../api/may_change.ts'

type Props = {
  title: string
  /** Parent page, for pages about one resource. */
  parent?: { to: string; name: string }
  /** Status badge beside the title. */
  status?: ReactNode
  /** One sentence that answers the page's main question. */
  summary?: ReactNode
  /** Facts about the resource. */
  meta?: ReactNode
  /** Tools for viewing, shown to everyone above all actions. */
  tools?: ReactNode
  /** Actions: at most one primary button, the rest in a menu. Hidden from viewers. */
  children?: ReactNode
}

let hasOpenedAPage = false

/** Header of every page. Sets the document title, and focuses the heading after navigation. */
export function PageHeader({ title, parent, status, summary, meta, tools, children }: Props) {
  const mayChange = useMayChange()
  const heading = useRef<HTMLHeadingElement>(null)
  useEffect(() => {
    document.title = `${title} · Gatehouse`
  }, [title])
  useEffect(() => {
    // Announces the page to screen readers; the browser has already announced the first one. Keeps focus that is
    // already on the page.
    if (hasOpenedAPage && !document.getElementById('main')?.contains(document.activeElement)) heading.current?.focus()
    hasOpenedAPage = true
  }, [])
  return (
    <header className="page-head">
      <div>
        {parent && (
          <nav aria-label="Breadcrumb" className="crumbs">
            <Link className="quiet-link" to={parent.to}>
              {parent.name}
            </Link>
          </nav>
        )}
        <div className="page-title">
          <h1 ref={heading} tabIndex={-1}>
            {title}
          </h1>
          {status}
        </div>
        {summary && <p className="summary">{summary}</p>}
        {meta && <div className="meta">{meta}</div>}
      </div>
      {(tools || (children && mayChange)) && (
        <div className="actions">
          {tools}
          {mayChange && children}
        </div>
      )}
    </header>
  )
}
