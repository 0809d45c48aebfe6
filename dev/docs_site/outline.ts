/** The side bar. Pages that it does not name come last, so that a new one is never missing. */
export const outline: readonly { title: string; files: readonly string[] }[] = [
  {
    title: 'Start',
    files: [
      'README.md',
      ...['concepts', 'tutorial', 'install', 'migrating', 'faq', 'glossary'].map((name) => `docs/${name}.md`),
    ],
  },
  {
    title: 'Use',
    files: ['api', 'errors', 'cli', 'dashboard', 'sign-in', 'domains', 'certificates', 'webhooks', 'logs'].map(
      (name) => `docs/${name}.md`,
    ),
  },
  {
    title: 'Operate',
    files: [
      'docs/operations.md',
      'deploy/README.md',
      'docs/upgrade.md',
      'docs/doctor.md',
      'docs/edge.md',
      'docs/monitoring.md',
      'docs/scale.md',
      'docs/performance.md',
      'docs/security.md',
    ],
  },
  {
    title: 'Develop',
    files: ['docs/architecture.md', 'docs/adr/README.md', 'docs/dependencies.md', 'CONTRIBUTING.md', 'CHANGELOG.md'],
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
