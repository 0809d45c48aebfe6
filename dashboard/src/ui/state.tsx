import { type ReactNode, useContext } from 'react'
import { Unread } from './unread.ts'

export type Health = 'up' | 'partial' | 'down' | 'unknown'

/**
 * Health, by shape and word: circle, diamond, square, ring. A verdict or a mode is a Badge. What could not be read again is
 * not shown as fine.
 */
export function State({ health, children }: { health: Health; children?: ReactNode }) {
  if (useContext(Unread) && health === 'up') return <span className="state unknown">Unknown</span>
  return <span className={`state ${health}`}>{children}</span>
}
