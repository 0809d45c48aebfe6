import { acmeSettings } from './acme.ts'
import { alertSettings } from './alerts.ts'
import { backupSettings } from './backup.ts'
import { domainSettings } from './domains.ts'
import { mailSettings } from './mail.ts'
import { natsSettings } from './nats.ts'
import { quotaSettings } from './quotas.ts'
import { setting } from './setting.ts'
import { traceSettings } from './tracing.ts'
import { unusualChangeSettings } from './unusual_changes.ts'
import {
  databaseUrl,
  domains,
  list,
  listenAddress,
  logLevel,
  logLevels,
  natsServers,
  networks,
  nodeKeyTrust,
  onOrOff,
  portRange,
  publicUrl,
  roleName,
  text,
  wholeNumber,
} from './values.ts'
import { webhookSettings } from './webhooks.ts'

/** Settings of `gatehouse serve` and of the commands that work on its database. */
export const settings = {
  GATEHOUSE_DATABASE_URL: setting({
    help: 'PostgreSQL connection URL, as postgres://user:password@host:port/database. It may name several servers, as host1,host2: connections then lead to the one that accepts changes.',
    secret: true,
    parse: databaseUrl,
  }),
  GATEHOUSE_DATABASE_APP_ROLE: setting({
    default: '',
    help: "Least-privileged role for 'gatehouse serve', which 'gatehouse migrate' grants its rights. Empty: serve runs as the owner of the tables.",
    parse: roleName,
  }),
  GATEHOUSE_SECRETS_KEY_FILE: setting({
    default: '',
    help: 'File of the keys that encrypt certificate private keys, webhook secrets and signing keys in the database: base64 of 32 random bytes a line. The first encrypts, all decrypt. Empty: certificates and webhooks cannot be created, and signing keys are stored in clear.',
    parse: text,
  }),
  GATEHOUSE_DATABASE_POOL_SIZE: setting({
    default: '10',
    help: 'PostgreSQL connections per process, in addition to two that look-ups share.',
    parse: wholeNumber(2, 500),
  }),
  GATEHOUSE_DATABASE_TIMEOUT_MS: setting({
    default: '5000',
    help: 'How long a request waits for a connection, and how long a statement may run.',
    parse: wholeNumber(100, 600_000),
  }),
  GATEHOUSE_MIGRATE_LOCK_WAIT_SECONDS: setting({
    default: '300',
    help: "How long 'gatehouse migrate' waits for a lock that another session holds before it gives up and names that session. 0: no limit.",
    parse: wholeNumber(0, 86_400),
  }),
  GATEHOUSE_HEAVY_OPERATIONS: setting({
    default: '2',
    help: 'Rule sets, and as many reports, that one process handles concurrently. Keep it within a quarter of the pool.',
    parse: wholeNumber(1, 100),
  }),
  GATEHOUSE_REQUESTS_PER_MINUTE: setting({
    default: '6000',
    help: "Requests that one API key may make per minute, and all keys of an account ten times as many, through each process. 0: no limit. 'gatehouse rate-limits' changes it for an account.",
    parse: wholeNumber(0, 1_000_000),
  }),
  GATEHOUSE_FAILED_REQUESTS_PER_MINUTE: setting({
    default: '60',
    help: 'Requests with a wrong token that one source address (IPv6: /64) may make per minute, through each process, before they get 429 instead of 401. 0: no limit.',
    parse: wholeNumber(0, 1_000_000),
  }),
  GATEHOUSE_LISTEN: setting({
    default: '127.0.0.1:8080',
    help: 'Address and port of the API, as address:port.',
    parse: listenAddress,
  }),
  GATEHOUSE_PUBLIC_URL: setting({
    default: 'http://127.0.0.1:8080',
    help: 'URL at which clients reach the service. Every uri begins with it.',
    parse: publicUrl,
  }),
  GATEHOUSE_TRUSTED_PROXIES: setting({
    default: '',
    help: 'Addresses and CIDR ranges, comma-separated, whose X-Forwarded-For header is trusted. All others are ignored.',
    parse: networks,
  }),
  GATEHOUSE_DASHBOARD: setting({
    default: 'on',
    help: 'Whether to serve the dashboard and allow signing in to it: on or off.',
    parse: onOrOff,
  }),
  GATEHOUSE_OIDC_FILE: setting({
    default: '',
    help: 'File with the OpenID Connect providers that people sign in with, YAML or JSON; see docs/guides/sign-in.md. Empty: none.',
    parse: text,
  }),
  GATEHOUSE_TOKEN_SIGN_IN: setting({
    default: 'on',
    help: 'Whether the token of an API key signs in to the dashboard: on or off.',
    parse: onOrOff,
  }),
  GATEHOUSE_LOGIN_HOURS: setting({
    default: '12',
    help: "How many hours the API key of 'gatehouse login' is valid.",
    parse: wholeNumber(1, 720),
  }),
  GATEHOUSE_DOCS: setting({
    default: 'on',
    help: 'Whether to serve the documentation under /docs/, /openapi.json and /llms.txt: on or off.',
    parse: onOrOff,
  }),
  GATEHOUSE_VERSION_HEADER_ALIASES: setting({
    default: '',
    help: 'Additional headers accepted as Service-Version, comma-separated, such as Ngrok-Version.',
    parse: (value) => list(value.toLowerCase()),
  }),
  GATEHOUSE_TCP_PORTS: setting({
    default: '20000-29999',
    help: 'Port range for TCP edges, as first-last.',
    parse: portRange,
  }),
  GATEHOUSE_WILDCARD_SUFFIXES: setting({
    default: '',
    help: 'Public suffixes, comma-separated, directly under which wildcard hostports are allowed. Use it for your own domains that are on the Public Suffix List.',
    parse: domains,
  }),
  ...quotaSettings,
  ...unusualChangeSettings,
  ...domainSettings,
  ...acmeSettings,
  ...natsSettings,
  GATEHOUSE_EMERGENCY_KEYS: setting({
    default: '',
    help: "Public keys of 'gatehouse emergency init', comma-separated, that nodes learn when they join.",
    parse: list,
  }),
  GATEHOUSE_NATS_PUBLIC_URL: setting({
    default: '',
    help: 'NATS servers, comma-separated, as nodes that join reach them. Empty: those of GATEHOUSE_NATS_URL.',
    parse: natsServers,
  }),
  GATEHOUSE_NATS_REPLICAS: setting({
    default: '1',
    help: 'Replicas of the records in NATS. Use 3 with three servers.',
    parse: wholeNumber(1, 5),
  }),
  GATEHOUSE_EDGE_NODE_KEYS: setting({
    default: 'first',
    help: "Which edge node keys receive certificate private keys: first (the first key that a node reports; 'gatehouse edge-keys accept' allows another) or approved (none before that command).",
    parse: nodeKeyTrust,
  }),
  GATEHOUSE_REQUEST_TIMEOUT_MS: setting({
    default: '30000',
    help: 'How long a request may take to arrive in full.',
    parse: wholeNumber(100, 3_600_000),
  }),
  GATEHOUSE_SHUTDOWN_GRACE_MS: setting({
    default: '25000',
    help: 'How long requests in flight may take to finish after SIGTERM.',
    parse: wholeNumber(0, 3_600_000),
  }),
  GATEHOUSE_AUDIT_RETENTION_MONTHS: setting({
    default: '13',
    help: 'Months of audit events to keep. 0 keeps all.',
    parse: wholeNumber(0, 1_200),
  }),
  ...webhookSettings,
  ...alertSettings,
  ...mailSettings,
  ...traceSettings,
  ...backupSettings,
  GATEHOUSE_ADDRESS_RETENTION_DAYS: setting({
    default: '30',
    help: 'Days to keep source addresses of refused requests, warnings and API key use.',
    parse: wholeNumber(1, 3_650),
  }),
  GATEHOUSE_REQUEST_RETENTION_DAYS: setting({
    default: '7',
    help: 'Days to keep requests that edge nodes refused, warned about, limited or failed.',
    parse: wholeNumber(1, 365),
  }),
  GATEHOUSE_REQUESTS_KEPT_PER_HOUR: setting({
    default: '1000',
    help: 'Such requests that are kept per hour for each account and edge node. The rest are only counted.',
    parse: wholeNumber(0, 1_000_000),
  }),
  GATEHOUSE_POLICY_CACHE_MB: setting({
    default: '256',
    help: 'Memory per process for compiled IP policies.',
    parse: wholeNumber(1, 65_536),
  }),
  GATEHOUSE_LOG_LEVEL: setting({ default: 'info', help: `One of ${logLevels.join(', ')}.`, parse: logLevel }),
}
