import { Gauge, type Registry } from 'prom-client'

export type DomainMetrics = {
  readonly showReservedDomains: (byStatus: Readonly<Record<string, number>>) => void
}

export function domainMetrics(registers: Registry[]): DomainMetrics {
  const reservedDomains = new Gauge({
    name: 'gatehouse_reserved_domains',
    help: 'Reserved domains by status. failing: the TXT record has gone, and the grace period has not ended. Updated hourly.',
    labelNames: ['status'],
    registers,
  })
  return {
    showReservedDomains(byStatus) {
      for (const [status, count] of Object.entries(byStatus)) reservedDomains.set({ status }, count)
    },
  }
}
