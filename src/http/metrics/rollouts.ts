import { Gauge, type Registry } from 'prom-client'

type Open = { readonly watching: number; readonly halted: number }
export type RolloutMetrics = { readonly showRollouts: (counts: Open) => void }

export function rolloutMetrics(registers: Registry[]): RolloutMetrics {
  const open = new Gauge({
    name: 'gatehouse_rollouts',
    help: 'Rollouts that have not reached all waves of their cell, by state. Updated every 15 seconds.',
    labelNames: ['state'],
    registers,
  })
  return {
    showRollouts({ watching, halted }) {
      open.set({ state: 'watching' }, watching)
      open.set({ state: 'halted' }, halted)
    },
  }
}
