/** Edge nodes reject records with more. */
export const maxRestrictions = 1_000

/** Limited resources of an account: name in messages, default and maximum of the setting. */
export const quotaKinds = {
  users: { called: 'users', byDefault: 10_000 },
  bot_users: { called: 'bots', byDefault: 10_000 },
  api_keys: { called: 'API keys', byDefault: 10_000 },
  identities: { called: 'identities', byDefault: 10_000 },
  ip_policies: { called: 'IP policies', byDefault: 10_000 },
  ip_policy_rules: { called: 'rules in all IP policies', byDefault: 500_000 },
  ip_restrictions: { called: 'IP restrictions', byDefault: 1_000, atMost: maxRestrictions },
  tcp_edges: { called: 'TCP edges', byDefault: 10_000 },
  tcp_ports: { called: 'TCP ports', byDefault: 1_000 },
  https_edges: { called: 'HTTPS edges', byDefault: 10_000 },
  https_edge_routes: { called: 'routes of all HTTPS edges', byDefault: 50_000 },
  backends: { called: 'backends of all types', byDefault: 20_000 },
  reserved_domains: { called: 'reserved domains', byDefault: 1_000 },
  tls_certificates: { called: 'uploaded certificates', byDefault: 1_000 },
  webhook_destinations: { called: 'webhook destinations', byDefault: 100 },
  change_sets: { called: 'drafts of change sets', byDefault: 1_000 },
  access_tests: { called: 'access tests', byDefault: 200 },
  alert_rules: { called: 'alert rules', byDefault: 100 },
} as const satisfies Record<string, { called: string; byDefault: number; atMost?: number }>

export type QuotaKind = keyof typeof quotaKinds
export type Quotas = Readonly<Record<QuotaKind, number>>

export const isQuotaKind = (text: string): text is QuotaKind => Object.hasOwn(quotaKinds, text)

export function highestQuota(kind: QuotaKind): number {
  const { atMost = 1_000_000_000 }: { called: string; atMost?: number } = quotaKinds[kind]
  return atMost
}
