import { Counter, Gauge, type Registry } from 'prom-client'

export type AlertMetrics = {
  readonly alerts: {
    readonly evaluated: (outcome: 'done' | 'failed') => void
    readonly changed: (change: 'fired' | 'resolved') => void
    readonly show: (figures: { firing: number; overdueSeconds: number }) => void
  }
}

export function alertMetrics(registers: Registry[]): AlertMetrics {
  const evaluations = new Counter({
    name: 'gatehouse_alert_evaluations_total',
    help: 'Evaluations of the alert rules of an account by this process.',
    labelNames: ['outcome'],
    registers,
  })
  const changes = new Counter({
    name: 'gatehouse_alert_changes_total',
    help: 'Alerts of accounts that fired or were resolved in this process.',
    labelNames: ['change'],
    registers,
  })
  const firing = new Gauge({
    name: 'gatehouse_alerts_firing',
    help: 'Alerts of all accounts that fire. Updated every 15 seconds.',
    registers,
  })
  const overdue = new Gauge({
    name: 'gatehouse_alert_evaluation_overdue_seconds',
    help: 'How long the evaluation of the account that waits longest has been due. Updated every 15 seconds.',
    registers,
  })
  return {
    alerts: {
      evaluated: (outcome) => evaluations.inc({ outcome }),
      changed: (change) => changes.inc({ change }),
      show({ firing: count, overdueSeconds }) {
        firing.set(count)
        overdue.set(overdueSeconds)
      },
    },
  }
}
