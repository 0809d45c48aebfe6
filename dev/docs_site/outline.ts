const inFolder = (folder: string, ...names: string[]): string[] => names.map((name) => `docs/${folder}/${name}.md`)

/**
 * The side bar, and the order of 'previous' and 'next'. Pages that are not listed come last, so that none is missing.
 */
export const outline: readonly { title: string; files: readonly string[] }[] = [
  {
    title: 'Start',
    files: inFolder('start', 'concepts', 'quickstart', 'tutorial', 'first-calls', 'compare', 'faq'),
  },
  {
    title: 'Install',
    files: [
      ...inFolder('guides', 'install-debian', 'install-docker', 'install-kubernetes', 'install-from-source'),
      ...inFolder('guides', 'put-tls-in-front', 'add-an-edge-node', 'behind-a-load-balancer', 'migrate-from-ngrok'),
    ],
  },
  {
    title: 'Control access',
    files: [
      ...inFolder('guides', 'ip-policies', 'introduce-a-restriction', 'preview-a-change', 'change-sets', 'undo'),
      ...inFolder('guides', 'access-tests', 'import-and-prune-rules'),
      ...inFolder('guides', 'why-was-it-refused', 'api-keys', 'sign-in', 'audit-log', 'recipes'),
    ],
  },
  {
    title: 'Serve traffic',
    files: [
      ...inFolder('guides', 'edges-and-routes', 'backends', 'request-headers', 'response-headers', 'redirects'),
      ...inFolder('guides', 'rewrites', 'filters', 'rate-limits', 'cors', 'client-certificates'),
      ...inFolder('guides', 'domains', 'certificates', 'upload-a-certificate', 'is-it-in-force'),
    ],
  },
  {
    title: 'Automate and watch',
    files: [
      ...inFolder('guides', 'dashboard', 'clients', 'mcp', 'state-files-in-ci', 'terraform', 'webhooks', 'alerts'),
      ...inFolder('guides', 'access-log'),
    ],
  },
  {
    title: 'Operate',
    files: [
      ...inFolder('operate', 'doctor', 'health-checks', 'monitoring', 'troubleshooting', 'troubleshooting-edge-nodes'),
      ...inFolder(
        'operate',
        'backup-and-restore',
        'upgrade',
        'upgrade-from-passwords',
        'high-availability',
        'reliability',
        'emergencies',
        'capacity',
        'start-and-stop',
      ),
      ...inFolder(
        'operate',
        'edge-nodes',
        'cells',
        'regions',
        'drain-edge-nodes',
        'database-roles',
        'nats',
        'signing-keys',
        'rotate-secrets',
      ),
      ...inFolder('operate', 'upstream-networks', 'edge-certificates', 'edge-limits', 'quotas'),
    ],
  },
  {
    title: 'Reference',
    files: [
      ...inFolder('reference', 'api-conventions', 'errors', 'roles-and-scopes', 'cli', 'commands', 'state-file'),
      ...inFolder('reference', 'settings', 'metrics', 'log-messages', 'limits-and-retention', 'ports'),
      ...inFolder('reference', 'edge-behavior', 'dashboard-session', 'compatibility', 'glossary'),
      'CHANGELOG.md',
    ],
  },
  {
    title: 'Understand',
    files: inFolder('explain', 'how-it-works', 'order', 'health', 'when-a-part-is-down', 'security'),
  },
  {
    title: 'Contribute',
    files: [
      'CONTRIBUTING.md',
      ...inFolder(
        'contribute',
        'architecture',
        'testing',
        'edge-state',
        'edge-tests',
        'extending',
        'releasing',
        'dependencies',
        'performance',
      ),
      'deploy/README.md',
      'examples/README.md',
      'docs/adr/README.md',
    ],
  },
]

export const sources = ['CHANGELOG.md', 'CONTRIBUTING.md', 'deploy/README.md', 'examples/README.md', 'docs/**/*.md']

/** The place of a repository page in the site. The README is for the repository; the site has a landing page instead. */
export function addressOf(file: string): string {
  if (file === 'README.md') return 'index.html'
  if (file === 'deploy/README.md') return 'deploy.html'
  if (file === 'examples/README.md') return 'examples.html'
  return `${file
    .replace(/^docs\//, '')
    .replace(/\.md$/, '')
    .toLowerCase()}.html`
}

/** Decisions have a page of their own that lists them. */
export const isInSideBar = (file: string): boolean => !/^docs\/adr\/\d/.test(file)

/** Weight in the search: pages for users rank above those for contributors. */
export function weightOf(file: string): number {
  if (/^docs\/(start|guides|operate|explain)\//.test(file)) return 1
  if (/^docs\/reference\//.test(file)) return 0.9
  return /^docs\/adr\/|^CHANGELOG/.test(file) ? 0.25 : 0.4
}
