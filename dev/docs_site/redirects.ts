/** Where a page of an earlier release is now. `sections` are headings that moved to another page than the rest. */
type Moved = { readonly to: string; readonly sections?: Readonly<Record<string, string>> }

/** By the address that links, bookmarks and `doc_url` of earlier releases have. */
export const redirects: Readonly<Record<string, Moved>> = {
  'concepts.html': { to: 'start/concepts.html' },
  'tutorial.html': { to: 'start/tutorial.html' },
  'faq.html': { to: 'start/faq.html' },
  'install.html': { to: 'guides/install-debian.html' },
  'migrating.html': { to: 'guides/migrate-from-ngrok.html' },
  'dashboard.html': { to: 'guides/dashboard.html' },
  'sign-in.html': { to: 'guides/sign-in.html' },
  'domains.html': { to: 'guides/domains.html' },
  'certificates.html': { to: 'guides/certificates.html' },
  'webhooks.html': { to: 'guides/webhooks.html' },
  'logs.html': { to: 'guides/access-log.html' },
  'api.html': { to: 'reference/api.html' },
  'errors.html': { to: 'reference/errors.html' },
  'cli.html': { to: 'reference/cli.html' },
  'glossary.html': { to: 'reference/glossary.html' },
  'operations.html': { to: 'operate/operations.html' },
  'edge.html': { to: 'operate/edge-nodes.html' },
  'upgrade.html': { to: 'operate/upgrade.html' },
  'doctor.html': { to: 'operate/doctor.html' },
  'monitoring.html': { to: 'operate/monitoring.html' },
  'scale.html': { to: 'operate/capacity.html' },
  'security.html': { to: 'explain/security.html' },
  'performance.html': { to: 'contribute/performance.html' },
  'architecture.html': { to: 'contribute/architecture.html' },
  'dependencies.html': { to: 'contribute/dependencies.html' },
}

/** A static page, so that it works without the service too. The script keeps the section, which a refresh would lose. */
export const redirectPage = ({ to, sections = {} }: Moved): string => `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Moved · Gatehouse</title>
<script src="redirect.js" data-to="${to}" data-sections='${JSON.stringify(sections)}'></script>
<noscript><meta http-equiv="refresh" content="0; url=${to}"></noscript></head>
<body><p>This page is now <a href="${to}">${to}</a>.</p></body></html>
`
