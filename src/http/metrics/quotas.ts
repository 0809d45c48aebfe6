import { Gauge, type Registry } from 'prom-client'

type Share = { readonly account: string; readonly kind: string; readonly share: number }

export type QuotaMetrics = { readonly showQuotaShares: (shares: readonly Share[]) => void }

export function quotaMetrics(registers: Registry[]): QuotaMetrics {
  const used = new Gauge({
    name: 'gatehouse_quota_used_ratio',
    help: 'Share of a quota that an account uses, for the 50 largest of 0.8 and more. Updated every minute.',
    labelNames: ['account', 'kind'],
    registers,
  })
  return {
    showQuotaShares(shares) {
      used.reset()
      for (const { account, kind, share } of shares) used.set({ account, kind }, share)
    },
  }
}
