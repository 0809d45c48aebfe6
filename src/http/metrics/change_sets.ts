import { Gauge, type Registry } from 'prom-client'

type Unconfirmed = { readonly waiting: number; readonly overdue: number; readonly revert_failed: number }
export type ChangeSetMetrics = { readonly showUnconfirmed: (counts: Unconfirmed) => void }

export function changeSetMetrics(registers: Registry[]): ChangeSetMetrics {
  const gauge = new Gauge({
    name: 'gatehouse_unconfirmed_change_sets',
    help: 'Change sets that were applied with confirm_within_seconds. waiting: they can be confirmed. overdue: they should have been undone by now. revert_failed: they could not be undone. Updated every 15 seconds.',
    labelNames: ['state'],
    registers,
  })
  return {
    showUnconfirmed({ waiting, overdue, revert_failed }) {
      gauge.set({ state: 'waiting' }, waiting - overdue)
      gauge.set({ state: 'overdue' }, overdue)
      gauge.set({ state: 'revert_failed' }, revert_failed)
    },
  }
}
