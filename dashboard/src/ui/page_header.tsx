import { type ReactNode, useEffect, useRef } from 'react'
import { Link } from 'react-router'
import { useMayChange } from '../api/may_change.ts'

type Props = {
  title: string
  /** Where the page belongs, for pages about one thing. */
  parent?: { to: string; name: string }
  /** How things are, in a pill beside the title. */
  status?: ReactNode
  /** One sentence: the answer that the page opens with. */
  summary?: ReactNode
  /** Facts about the thing, separated by space. */
  meta?: ReactNode
  /** What helps with looking, for everyone: above all other actions. */
  tools?: ReactNode
  /** What can be changed here: at most one primary button, the rest in a menu. Not for viewers. */
  children?: ReactNode
}

let hasOpenedAPage = false

/** The head of every page. It names the document, and moves the focus to the heading after a navigation. */
export function PageHeader({ title, parent, status, summary, meta, tools, children }: Props) {
  const mayChange = useMayChange()
  const heading = useRef<HTMLHeadingElement>(null)
  useEffect(() => {
    document.title = `${title} · Gatehouse`
  }, [title])
  useEffect(() => {
    // A screen reader hears where it is now; on the first page the browser has said so already. Focus that is already on
    // the page when its head appears stays there.
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
