import { Counter, Gauge, type Registry } from 'prom-client'

type Unconfirmed = { readonly waiting: number; readonly overdue: number; readonly revert_failed: number }
export type ChangeSetMetrics = {
  readonly showUnconfirmed: (counts: Unconfirmed) => void
  /** Counts a change made without the approval that it needed. */
  readonly countBreakGlass: () => void
}

export function changeSetMetrics(registers: Registry[]): ChangeSetMetrics {
  const gauge = new Gauge({
    name: 'gatehouse_unconfirmed_change_sets',
    help: 'Change sets that were applied with confirm_within_seconds. waiting: they can be confirmed. overdue: they should have been undone by now. revert_failed: they could not be undone. Updated every 15 seconds.',
    labelNames: ['state'],
    registers,
  })
  const bypassed = new Counter({
    name: 'gatehouse_changes_without_approval_total',
    help: 'Requests that made changes with break_glass, without the approval that they needed.',
    registers,
  })
  return {
    countBreakGlass: () => bypassed.inc(),
    showUnconfirmed({ waiting, overdue, revert_failed }) {
      gauge.set({ state: 'waiting' }, waiting - overdue)
      gauge.set({ state: 'overdue' }, overdue)
      gauge.set({ state: 'revert_failed' }, revert_failed)
    },
  }
}
