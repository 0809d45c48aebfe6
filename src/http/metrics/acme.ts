import { Counter, Gauge, type Registry } from 'prom-client'

export type AcmeMetrics = {
  readonly showAcmeOrders: (byState: Readonly<Record<string, number>>) => void
  /** `error`: code of the error. */
  readonly countAcmeOutcome: (issued: boolean, error: string | undefined) => void
}

export function acmeMetrics(registers: Registry[]): AcmeMetrics {
  const orders = new Gauge({
    name: 'gatehouse_acme_domains',
    help: 'Domains with a managed certificate. settled: the certificate is there. waiting: it is not there yet. failing: the last attempt failed. In addition, overdue: it should have been renewed more than a day ago. limited: the account has used up its orders for the hour. Absent without an ACME authority.',
    labelNames: ['state'],
    registers,
  })
  const issuedTotal = new Counter({
    name: 'gatehouse_acme_certificates_issued_total',
    help: 'Certificates that this process obtained from the ACME authority.',
    registers,
  })
  const failures = new Counter({
    name: 'gatehouse_acme_failures_total',
    help: 'Attempts of this process to obtain a certificate that failed, by error_code.',
    labelNames: ['code'],
    registers,
  })
  return {
    showAcmeOrders(byState) {
      for (const [state, count] of Object.entries(byState)) orders.set({ state }, count)
    },
    countAcmeOutcome(issued, error) {
      if (issued) issuedTotal.inc()
      if (error) failures.inc({ code: error })
    },
  }
}
