import { highestQuota, type QuotaKind, type Quotas, quotaKinds } from '../kernel/quotas.ts'
import { setting } from './setting.ts'
import { wholeNumber } from './values.ts'

const quota = (kind: QuotaKind) =>
  setting({
    default: String(quotaKinds[kind].byDefault),
    help: `Quota of an account: ${quotaKinds[kind].called}. 'gatehouse quotas' changes it for one.`,
    parse: wholeNumber(0, highestQuota(kind)),
  })

export const quotaSettings = {
  GATEHOUSE_USERS_PER_ACCOUNT: quota('users'),
  GATEHOUSE_BOTS_PER_ACCOUNT: quota('bot_users'),
  GATEHOUSE_API_KEYS_PER_ACCOUNT: quota('api_keys'),
  GATEHOUSE_IDENTITIES_PER_ACCOUNT: quota('identities'),
  GATEHOUSE_IP_POLICIES_PER_ACCOUNT: quota('ip_policies'),
  GATEHOUSE_IP_POLICY_RULES_PER_ACCOUNT: quota('ip_policy_rules'),
  GATEHOUSE_IP_RESTRICTIONS_PER_ACCOUNT: quota('ip_restrictions'),
  GATEHOUSE_TCP_EDGES_PER_ACCOUNT: quota('tcp_edges'),
  GATEHOUSE_TCP_PORTS_PER_ACCOUNT: quota('tcp_ports'),
  GATEHOUSE_HTTPS_EDGES_PER_ACCOUNT: quota('https_edges'),
  GATEHOUSE_ROUTES_PER_ACCOUNT: quota('https_edge_routes'),
  GATEHOUSE_BACKENDS_PER_ACCOUNT: quota('backends'),
  GATEHOUSE_DOMAINS_PER_ACCOUNT: quota('reserved_domains'),
  GATEHOUSE_CERTIFICATES_PER_ACCOUNT: quota('tls_certificates'),
  GATEHOUSE_WEBHOOK_DESTINATIONS_PER_ACCOUNT: quota('webhook_destinations'),
  GATEHOUSE_CHANGE_SETS_PER_ACCOUNT: quota('change_sets'),
  GATEHOUSE_ACCESS_TESTS_PER_ACCOUNT: quota('access_tests'),
  GATEHOUSE_ALERT_RULES_PER_ACCOUNT: quota('alert_rules'),
}

export const quotasIn = (config: Readonly<Record<keyof typeof quotaSettings, number>>): Quotas => ({
  users: config.GATEHOUSE_USERS_PER_ACCOUNT,
  bot_users: config.GATEHOUSE_BOTS_PER_ACCOUNT,
  api_keys: config.GATEHOUSE_API_KEYS_PER_ACCOUNT,
  identities: config.GATEHOUSE_IDENTITIES_PER_ACCOUNT,
  ip_policies: config.GATEHOUSE_IP_POLICIES_PER_ACCOUNT,
  ip_policy_rules: config.GATEHOUSE_IP_POLICY_RULES_PER_ACCOUNT,
  ip_restrictions: config.GATEHOUSE_IP_RESTRICTIONS_PER_ACCOUNT,
  tcp_edges: config.GATEHOUSE_TCP_EDGES_PER_ACCOUNT,
  tcp_ports: config.GATEHOUSE_TCP_PORTS_PER_ACCOUNT,
  https_edges: config.GATEHOUSE_HTTPS_EDGES_PER_ACCOUNT,
  https_edge_routes: config.GATEHOUSE_ROUTES_PER_ACCOUNT,
  backends: config.GATEHOUSE_BACKENDS_PER_ACCOUNT,
  reserved_domains: config.GATEHOUSE_DOMAINS_PER_ACCOUNT,
  tls_certificates: config.GATEHOUSE_CERTIFICATES_PER_ACCOUNT,
  webhook_destinations: config.GATEHOUSE_WEBHOOK_DESTINATIONS_PER_ACCOUNT,
  change_sets: config.GATEHOUSE_CHANGE_SETS_PER_ACCOUNT,
  access_tests: config.GATEHOUSE_ACCESS_TESTS_PER_ACCOUNT,
  alert_rules: config.GATEHOUSE_ALERT_RULES_PER_ACCOUNT,
})
