import type { ReactNode } from 'react'

type Props = { title: ReactNode; children?: ReactNode /** A value, a link or a control. */; end?: ReactNode }

export function Line({ title, children, end }: Props) {
  return (
    <div className="setting-line">
      <div>
        <p className="strong">{title}</p>
        {children && <p className="fine">{children}</p>}
      </div>
      {end && <span>{end}</span>}
    </div>
  )
}
