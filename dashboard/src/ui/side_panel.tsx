import { type ReactNode, useEffect, useId, useRef } from 'react'
import { Icon } from './icons.tsx'

type Props = {
  title: string
  /** Above and below the title. */
  above?: ReactNode
  below?: ReactNode
  onClose: () => void
  /** To the row above and below, as long as there is one. */
  onPrevious?: (() => void) | undefined
  onNext?: (() => void) | undefined
  children: ReactNode
  footer?: ReactNode
}

/** Details of a row beside its table. Not modal: the table stays in use; Escape closes. */
export function SidePanel({ title, above, below, onClose, onPrevious, onNext, children, footer }: Props) {
  const panel = useRef<HTMLElement>(null)
  const heading = useId()
  useEffect(() => {
    const opener = document.activeElement
    panel.current?.focus()
    return () => {
      if (opener instanceof HTMLElement) opener.focus()
    }
  }, [])
  return (
    <section
      ref={panel}
      className="panel"
      tabIndex={-1}
      aria-labelledby={heading}
      onKeyDown={({ key, target, currentTarget }) => {
        // Dialogs and menus that it opens are drawn elsewhere, but React passes their events on.
        if (!currentTarget.contains(target as Node)) return
        if (key === 'Escape') onClose()
        if (key === 'ArrowUp') onPrevious?.()
        if (key === 'ArrowDown') onNext?.()
      }}
    >
      <header>
        <div>
          {above}
          <h2 id={heading}>{title}</h2>
          {below}
        </div>
        <button type="button" className="more" aria-label="Previous" disabled={!onPrevious} onClick={onPrevious}>
          <Icon name="up" />
        </button>
        <button type="button" className="more" aria-label="Next" disabled={!onNext} onClick={onNext}>
          <Icon name="down" />
        </button>
        <button type="button" className="more" aria-label="Close" onClick={onClose}>
          <Icon name="close" />
        </button>
      </header>
      <div className="body">{children}</div>
      {footer && <footer>{footer}</footer>}
    </section>
  )
}
