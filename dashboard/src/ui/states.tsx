import type { ReactNode } from 'react'
import { PageHeader } from './page_header.tsx'

type Props = {
  title: string
  /** What it means that there is nothing. */
  children?: ReactNode
  /** The next step. */
  actions?: ReactNode
}

/** Nothing to show: why, and what to do next. */
export function Empty({ title, children, actions }: Props) {
  return (
    <div className="empty">
      <h3>{title}</h3>
      {children && <p>{children}</p>}
      {actions && <div className="actions">{actions}</div>}
    </div>
  )
}

/** A page that only admins can use, for a member who follows a link to it. */
export function NotForMembers({ title }: { title: string }) {
  return (
    <>
      <PageHeader title={title} />
      <div className="frame">
        <Empty title="Only admins can see this page">Ask an admin of this account if you need something from it.</Empty>
      </div>
    </>
  )
}
