import type { ReactNode } from 'react'
import { Icon, type IconName } from './icons.tsx'

const icons: Record<Tone, IconName | undefined> = {
  allowed: 'allowed',
  refused: 'refused',
  warned: 'warned',
  neutral: undefined,
}
export type Tone = 'allowed' | 'refused' | 'warned' | 'neutral'

/** A state as word, icon and color; each alone is sufficient. */
export function Badge({ tone, children }: { tone: Tone; children: ReactNode }) {
  const icon = icons[tone]
  return (
    <span className={`badge ${tone}`}>
      {icon && <Icon name={icon} />}
      {children}
    </span>
  )
}
