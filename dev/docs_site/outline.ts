const inFolder = (folder: string, ...names: string[]): string[] => names.map((name) => `docs/${folder}/${name}.md`)

/** The side bar. Pages that it does not name come last, so that a new one is never missing. */
export const outline: readonly { title: string; files: readonly string[] }[] = [
  { title: 'Start', files: ['README.md', ...inFolder('start', 'concepts', 'tutorial', 'first-calls', 'faq')] },
  {
    title: 'Install',
    files: [
      ...inFolder('guides', 'install-debian', 'install-docker', 'install-kubernetes', 'install-from-source'),
      ...inFolder('guides', 'add-an-edge-node', 'behind-a-load-balancer', 'migrate-from-ngrok'),
    ],
  },
  {
    title: 'Control access',
    files: [
      ...inFolder('guides', 'ip-policies', 'introduce-a-restriction', 'import-and-prune-rules', 'why-was-it-refused'),
      ...inFolder('guides', 'api-keys', 'sign-in', 'audit-log'),
    ],
  },
  {
    title: 'Serve traffic',
    files: [
      ...inFolder('guides', 'edges-and-routes', 'backends', 'request-headers', 'domains', 'certificates'),
      ...inFolder('guides', 'upload-a-certificate', 'is-it-in-force'),
    ],
  },
  { title: 'Automate and watch', files: inFolder('guides', 'dashboard', 'webhooks', 'access-log') },
  {
    title: 'Operate',
    files: [
      ...inFolder('operate', 'doctor', 'health-checks', 'monitoring', 'troubleshooting', 'troubleshooting-edge-nodes'),
      ...inFolder('operate', 'backup-and-restore', 'upgrade', 'high-availability', 'capacity', 'start-and-stop'),
      ...inFolder('operate', 'drain-edge-nodes', 'database-roles', 'nats', 'signing-keys', 'rotate-secrets'),
      ...inFolder('operate', 'upstream-networks', 'edge-certificates', 'edge-limits', 'quotas'),
    ],
  },
  {
    title: 'Reference',
    files: [
      ...inFolder('reference', 'api-conventions', 'errors', 'roles-and-scopes', 'cli', 'state-file', 'settings'),
      ...inFolder('reference', 'metrics', 'log-messages', 'limits-and-retention', 'edge-behavior'),
      ...inFolder('reference', 'dashboard-session', 'glossary'),
      'CHANGELOG.md',
    ],
  },
  { title: 'Understand', files: inFolder('explain', 'when-a-part-is-down', 'security') },
  {
    title: 'Contribute',
    files: [
      'CONTRIBUTING.md',
      ...inFolder('contribute', 'architecture', 'testing', 'edge-tests', 'extending', 'dependencies', 'performance'),
      'deploy/README.md',
      'docs/adr/README.md',
    ],
  },
]

export const sources = ['README.md', 'CHANGELOG.md', 'CONTRIBUTING.md', 'deploy/README.md', 'docs/**/*.md']

/** Where a page of the repository is in the site. */
export function addressOf(file: string): string {
  if (file === 'README.md') return 'index.html'
  if (file === 'deploy/README.md') return 'deploy.html'
  return `${file
    .replace(/^docs\//, '')
    .replace(/\.md$/, '')
    .toLowerCase()}.html`
}

/** Decisions are listed on a page of their own. */
export const isInSideBar = (file: string): boolean => !/^docs\/adr\/\d/.test(file)
