import { Counter, Gauge, type Registry } from 'prom-client'
import { type RolloutSignal, rolloutSignals } from '../../kernel/edge/rollout_signals.ts'

type Open = { readonly watching: number; readonly halted: number; readonly overdue_seconds: number }
export type RolloutMetrics = {
  readonly showRollouts: (open: Open) => void
  /** Counts a rollout that the signals of its nodes have halted. */
  readonly countHalt: (evidence: readonly { readonly signal: RolloutSignal }[]) => void
}

export function rolloutMetrics(registers: Registry[]): RolloutMetrics {
  const open = new Gauge({
    name: 'gatehouse_rollouts',
    help: 'Rollouts that have not reached all waves of their cell, by state. Updated every 15 seconds.',
    labelNames: ['state'],
    registers,
  })
  const overdue = new Gauge({
    name: 'gatehouse_rollout_overdue_seconds',
    help: 'For how long the watch of a rollout should have ended, at most. Updated every 15 seconds.',
    registers,
  })
  const labelNames = ['signal'] as const
  const halts = new Counter({
    name: 'gatehouse_rollout_halts_total',
    help: 'Rollouts that this process has halted because of what nodes report, by what was seen first.',
    ...{ labelNames, registers },
  })
  const seen = new Counter({
    name: 'gatehouse_rollout_signals_total',
    help: 'What spoke against the rollouts that this process has halted.',
    ...{ labelNames, registers },
  })
  for (const signal of rolloutSignals) for (const counter of [halts, seen]) counter.inc({ signal }, 0)
  return {
    showRollouts({ watching, halted, overdue_seconds }) {
      open.set({ state: 'watching' }, watching)
      open.set({ state: 'halted' }, halted)
      overdue.set(overdue_seconds)
    },
    countHalt(evidence) {
      for (const [index, { signal }] of evidence.entries()) {
        seen.inc({ signal })
        if (index === 0) halts.inc({ signal })
      }
    },
  }
}
