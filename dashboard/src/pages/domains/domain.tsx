import { ago } from '../../../../src/kernel/ago.ts'
import type { Shapes } from '../../api/client.ts'
import { wordOf } from '../../ui/status.tsx'

export type Domain = Shapes['ReservedDomain']

export const isHeld = ({ verification: { status } }: Domain): boolean => status !== 'pending' && status !== 'lapsed'

/** The status in words. Words about ownership are used only if nothing else is wrong. */
export function wordsOf({ status, verification }: Domain): string {
  const isOfOwner = status?.code === 'ok' || status?.code.startsWith('domain_')
  return isOfOwner ? wordsFor(verification) : wordOf(status)
}

function wordsFor({ status, lapses_at }: Domain['verification']): string {
  if (status === 'failing') return `Record missing${lapses_at ? `, lapses ${ago(lapses_at)}` : ''}`
  return { verified: 'Verified', assigned: 'Assigned by the operator', lapsed: 'Lapsed', pending: 'Not verified yet' }[
    status
  ]
}
