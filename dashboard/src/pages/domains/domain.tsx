import { ago } from '../../../../src/kernel/ago.ts'
import type { Shapes } from '../../api/client.ts'
import { State } from '../../ui/state.tsx'

export type Domain = Shapes['ReservedDomain']

export const isHeld = ({ verification: { status } }: Domain): boolean => status !== 'pending' && status !== 'lapsed'

export function StatusOf({ domain: { verification } }: { domain: Domain }) {
  switch (verification.status) {
    case 'verified':
      return <State health="up">Verified</State>
    case 'assigned':
      return <State health="up">Assigned by the operator</State>
    case 'failing':
      return (
        <State health="partial">
          Record missing{verification.lapses_at ? `, lapses ${ago(verification.lapses_at)}` : ''}
        </State>
      )
    case 'lapsed':
      return <State health="down">Lapsed</State>
    default:
      return <State health="unknown">Not verified yet</State>
  }
}
