import type { ReactNode } from 'react'
import { Icon, type IconName } from './icons.tsx'

const icons: Record<Tone, IconName | undefined> = {
  allowed: 'allowed',
  refused: 'refused',
  warned: 'warned',
  neutral: undefined,
}
export type Tone = 'allowed' | 'refused' | 'warned' | 'neutral'

/** A state in words, with a sign, and in color last: any one of the three is enough to read it. */
export function Badge({ tone, children }: { tone: Tone; children: ReactNode }) {
  const icon = icons[tone]
  return (
    <span className={`badge ${tone}`}>
      {icon && <Icon name={icon} />}
      {children}
    </span>
  )
}
