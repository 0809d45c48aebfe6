import type { ReactNode } from 'react'

export type Health = 'up' | 'partial' | 'down' | 'unknown'

/** Health, by shape and word: circle, diamond, square, ring. A verdict or a mode is a Badge. */
export function State({ health, children }: { health: Health; children?: ReactNode }) {
  return <span className={`state ${health}`}>{children}</span>
}
