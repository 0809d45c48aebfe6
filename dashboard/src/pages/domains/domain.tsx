import { ago } from '../../../../src/kernel/ago.ts'
import type { Shapes } from '../../api/client.ts'
import { StatusState } from '../../ui/status.tsx'

export type Domain = Shapes['ReservedDomain']

export const isHeld = ({ verification: { status } }: Domain): boolean => status !== 'pending' && status !== 'lapsed'

export function StatusOf({ domain: { status, verification } }: { domain: Domain }) {
  return <StatusState status={status}>{wordsFor(verification)}</StatusState>
}

function wordsFor({ status, lapses_at }: Domain['verification']): string {
  if (status === 'failing') return `Record missing${lapses_at ? `, lapses ${ago(lapses_at)}` : ''}`
  return { verified: 'Verified', assigned: 'Assigned by the operator', lapsed: 'Lapsed', pending: 'Not verified yet' }[
    status
  ]
}
