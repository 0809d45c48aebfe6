const inFolder = (folder: string, ...names: string[]): string[] => names.map((name) => `docs/${folder}/${name}.md`)

/** The side bar. Pages that it does not name come last, so that a new one is never missing. */
export const outline: readonly { title: string; files: readonly string[] }[] = [
  { title: 'Start', files: ['README.md', ...inFolder('start', 'concepts', 'tutorial', 'faq')] },
  {
    title: 'Guides',
    files: [
      ...inFolder('guides', 'install-debian'),
      'deploy/README.md',
      ...inFolder('guides', 'dashboard', 'domains', 'certificates', 'sign-in', 'webhooks', 'access-log'),
      ...inFolder('guides', 'migrate-from-ngrok'),
    ],
  },
  { title: 'Reference', files: inFolder('reference', 'api', 'errors', 'cli', 'glossary') },
  {
    title: 'Operate',
    files: inFolder('operate', 'operations', 'edge-nodes', 'upgrade', 'doctor', 'monitoring', 'capacity'),
  },
  { title: 'Explain', files: inFolder('explain', 'security') },
  {
    title: 'Contribute',
    files: [
      'CONTRIBUTING.md',
      ...inFolder('contribute', 'architecture', 'dependencies', 'performance'),
      'docs/adr/README.md',
      'CHANGELOG.md',
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
