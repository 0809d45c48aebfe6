import { Gauge, type Registry } from 'prom-client'

type Expiring = { readonly account: string; readonly certificate: string; readonly expiresAt: number }

export type DomainMetrics = {
  /** The certificates that expire first, with the time in seconds. */
  readonly showExpiring: (certificates: readonly Expiring[]) => void
  readonly showReservedDomains: (byStatus: Readonly<Record<string, number>>) => void
}

export function domainMetrics(registers: Registry[]): DomainMetrics {
  const reservedDomains = new Gauge({
    name: 'gatehouse_reserved_domains',
    help: 'Reserved domains by status. failing: the TXT record has gone, and the grace period has not ended. Updated hourly.',
    labelNames: ['status'],
    registers,
  })
  const expiring = new Gauge({
    name: 'gatehouse_certificate_expiry_timestamp_seconds',
    help: 'When the 20 certificates expire that do so first. Updated hourly.',
    labelNames: ['account', 'certificate'],
    registers,
  })
  return {
    showExpiring(certificates) {
      expiring.reset()
      for (const { account, certificate, expiresAt } of certificates) expiring.set({ account, certificate }, expiresAt)
    },
    showReservedDomains(byStatus) {
      for (const [status, count] of Object.entries(byStatus)) reservedDomains.set({ status }, count)
    },
  }
}
