import { type ReactNode, useId } from 'react'

type Props = {
  title: string
  /** A few words beside the title. */
  note?: ReactNode
  /** A link or a button at the end of the line. */
  action?: ReactNode
  className?: string
  children: ReactNode
}

export function Section({ title, note, action, className, children }: Props) {
  const heading = useId()
  return (
    <section className={className ? `section ${className}` : 'section'} aria-labelledby={heading}>
      <div className="section-head">
        <h2>
          <span id={heading}>{title}</span> {note && <span className="fine">{note}</span>}
        </h2>
        {action}
      </div>
      {children}
    </section>
  )
}
