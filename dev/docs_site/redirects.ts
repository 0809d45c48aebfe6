/** The current place of a page from an earlier release. `sections` are headings that moved to other pages. */
type Moved = { readonly to: string; readonly sections?: Readonly<Record<string, string>> }

/** Keyed by the address in links, bookmarks and `doc_url` of earlier releases. */
export const redirects: Readonly<Record<string, Moved>> = {
  'concepts.html': { to: 'start/concepts.html' },
  'tutorial.html': { to: 'start/tutorial.html' },
  'faq.html': { to: 'start/faq.html' },
  'install.html': { to: 'guides/install-debian.html' },
  'migrating.html': { to: 'guides/migrate-from-ngrok.html' },
  'dashboard.html': { to: 'guides/dashboard.html' },
  'sign-in.html': {
    to: 'guides/sign-in.html',
    sections: { 'sign-in-the-command-line': 'guides/sign-in.html#sign-in-to-the-command-line' },
  },
  'domains.html': { to: 'guides/domains.html' },
  'certificates.html': { to: 'guides/certificates.html' },
  'webhooks.html': { to: 'guides/webhooks.html' },
  'logs.html': { to: 'guides/access-log.html' },
  'api.html': {
    to: 'reference/api-conventions.html',
    sections: {
      'first-calls': 'start/first-calls.html',
      'kinds-of-backends': 'guides/backends.html#types',
      'request-headers': 'guides/request-headers.html',
      'edges-routes-backends': 'guides/edges-and-routes.html',
      'ip-policies-and-rules': 'guides/ip-policies.html',
      'ip-restrictions': 'guides/introduce-a-restriction.html',
      'what-happened-to-a-request': 'guides/why-was-it-refused.html#what-is-recorded',
      'the-life-of-an-api-key': 'guides/api-keys.html',
      'when-is-it-in-force': 'guides/is-it-in-force.html',
      'audit-events': 'guides/audit-log.html',
      'tls-certificates': 'guides/upload-a-certificate.html',
      'the-dashboards-session': 'reference/dashboard-session.html',
      'who-may-do-what': 'reference/roles-and-scopes.html#roles',
      'scopes-and-source-ranges': 'reference/roles-and-scopes.html#scopes-and-source-ranges',
      'every-operation': 'reference/roles-and-scopes.html#every-operation',
    },
  },
  'errors.html': { to: 'reference/errors.html' },
  'cli.html': {
    to: 'reference/cli.html',
    sections: {
      'rules-that-are-not-needed': 'guides/import-and-prune-rules.html#prune-on-the-command-line',
      'requests-as-they-happen': 'guides/why-was-it-refused.html#follow-requests-on-the-command-line',
      'exporting-the-audit': 'guides/audit-log.html#export-it',
      'an-account-as-a-file': 'reference/state-file.html',
    },
  },
  'glossary.html': { to: 'reference/glossary.html' },
  'operations.html': {
    to: 'operate/troubleshooting.html',
    sections: {
      'nobody-can-sign-in-to-the-dashboard': 'operate/troubleshooting.html#no-one-can-sign-in-to-the-dashboard',
      'from-nothing-to-the-first-key': 'guides/install-from-source.html#build-migrate-start',
      'rules-must-be-imported': 'guides/import-and-prune-rules.html#import-from-a-file',
      'the-audit': 'guides/audit-log.html#how-long-it-is-kept',
      settings: 'reference/settings.html#control-plane',
      metrics: 'reference/metrics.html#control-plane',
      log: 'reference/log-messages.html',
      'what-else-is-kept-and-how-long': 'reference/limits-and-retention.html#what-is-kept-and-how-long',
      'two-database-roles': 'operate/database-roles.html',
      'health-and-readiness': 'operate/health-checks.html#control-plane',
      'start-order': 'operate/start-and-stop.html#start-order',
      'stopping-and-upgrading': 'operate/start-and-stop.html#stopping-and-upgrading',
      quotas: 'operate/quotas.html',
      backup: 'operate/backup-and-restore.html',
      restore: 'operate/backup-and-restore.html#restore',
      'high-availability': 'operate/high-availability.html',
      'rotating-secrets': 'operate/rotate-secrets.html',
      'the-key-that-encrypts-private-keys': 'operate/rotate-secrets.html#the-key-that-encrypts-private-keys',
      'what-to-do-when': 'operate/troubleshooting.html',
      'the-dashboard': 'guides/dashboard.html#for-operators',
      sizing: 'operate/capacity.html#sizing',
    },
  },
  'edge.html': {
    to: 'guides/add-an-edge-node.html',
    sections: {
      'what-a-node-needs': 'guides/add-an-edge-node.html#what-it-needs',
      'backends-with-several-servers': 'guides/backends.html#how-a-node-uses-several-servers',
      'find-out-why-a-request-was-refused': 'guides/why-was-it-refused.html#at-an-edge',
      settings: 'reference/settings.html#edge-nodes',
      limits: 'reference/edge-behavior.html#names-paths-and-ports',
      'responses-of-the-edge-and-retries': 'reference/edge-behavior.html#responses-of-the-edge-and-retries',
      'open-connections': 'reference/edge-behavior.html#open-connections',
      'how-to-see-what-is-in-force': 'operate/health-checks.html#edge-nodes',
      'setting-up-nats': 'operate/nats.html',
      'signing-keys': 'operate/signing-keys.html',
      'which-upstreams-a-node-dials': 'operate/upstream-networks.html',
      certificates: 'operate/edge-certificates.html',
      'certificates-of-accounts': 'operate/edge-certificates.html#certificates-of-accounts',
      'starting-and-stopping-the-agent': 'operate/drain-edge-nodes.html',
      'a-new-node-serves-nothing-until-its-state-is-complete':
        'operate/drain-edge-nodes.html#a-new-node-serves-nothing-until-its-state-is-complete',
      'how-much-one-client-or-tenant-may-use': 'operate/edge-limits.html',
      'at-three-in-the-morning': 'operate/troubleshooting-edge-nodes.html',
      'a-change-does-not-arrive': 'operate/troubleshooting-edge-nodes.html#a-change-does-not-arrive',
      'a-client-gets-no-answer-or-the-wrong-one':
        'operate/troubleshooting-edge-nodes.html#a-client-gets-no-answer-or-the-wrong-one',
      'an-upstream-fails': 'operate/troubleshooting-edge-nodes.html#an-upstream-fails',
      'nats-has-lost-its-data': 'operate/troubleshooting-edge-nodes.html#nats-has-lost-its-data',
      'the-log-says-is-it-the-right-database':
        'operate/troubleshooting-edge-nodes.html#the-log-says-is-it-the-right-database',
      'the-database-lacks-data-of-an-account-or-a-policy':
        'operate/troubleshooting-edge-nodes.html#the-database-lacks-data-of-an-account-or-a-policy',
      'make-a-node-read-everything-again': 'operate/troubleshooting-edge-nodes.html#make-a-node-read-everything-again',
      'a-nodes-disk-is-full-or-broken': 'operate/troubleshooting-edge-nodes.html#a-nodes-disk-is-full-or-broken',
      'what-a-node-refuses-and-why': 'operate/troubleshooting-edge-nodes.html#what-a-node-refuses-and-why',
      'when-a-part-is-down': 'explain/when-a-part-is-down.html#which-part-and-what-still-works',
      'rules-that-expire': 'explain/when-a-part-is-down.html#rules-that-expire',
      'what-has-been-tried': 'contribute/edge-tests.html#cases',
      'what-the-edge-costs': 'contribute/edge-tests.html#what-the-edge-costs',
      'how-many-routes-a-node-carries': 'contribute/edge-tests.html#how-many-routes-a-node-carries',
    },
  },
  'upgrade.html': { to: 'operate/upgrade.html' },
  'doctor.html': { to: 'operate/doctor.html' },
  'monitoring.html': { to: 'operate/monitoring.html' },
  'scale.html': {
    to: 'operate/capacity.html',
    sections: {
      'what-grows-and-how': 'contribute/growth.html',
      'sums-beside-the-counts': 'contribute/growth.html#sums-beside-the-counts',
    },
  },
  'security.html': { to: 'explain/security.html' },
  'performance.html': { to: 'contribute/performance.html' },
  'architecture.html': { to: 'contribute/architecture.html' },
  'dependencies.html': { to: 'contribute/dependencies.html' },
}

/**
 * A static page, so that it works without the service. The script keeps the section, which a meta refresh would lose.
 */
export const redirectPage = ({ to, sections = {} }: Moved): string => `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Moved · Gatehouse</title>
<script src="redirect.js" data-to="${to}" data-sections='${JSON.stringify(sections)}'></script>
<noscript><meta http-equiv="refresh" content="0; url=${to}"></noscript></head>
<body><p>This page is now <a href="${to}">${to}</a>.</p></body></html>
`
