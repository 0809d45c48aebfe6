import type { ReactNode } from 'react'
import { Icon, type IconName } from './icons.tsx'

type Props = {
  tone: 'allowed' | 'warned' | 'refused'
  icon: IconName
  title: string
  onDismiss: () => void
  children: ReactNode
}

/** One for each change, at the foot of the window. Its container announces it politely. */
export function Toast({ tone, icon, title, onDismiss, children }: Props) {
  return (
    <div className={`toast ${tone}`}>
      <Icon name={icon} />
      <div>
        <p className="strong">{title}</p>
        {children}
      </div>
      <button type="button" className="more" aria-label="Dismiss" onClick={onDismiss}>
        <Icon name="close" />
      </button>
    </div>
  )
}
