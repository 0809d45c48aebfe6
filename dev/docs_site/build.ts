import { cp, glob, mkdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import document from '../../openapi.json' with { type: 'json' }
import { operations } from '../../src/cli/operations.ts'
import { isStale } from '../stale.ts'
import { landingAddress, landingPage } from './landing.ts'
import { type Group, layout } from './layout.ts'
import { type Page, renderPage } from './markdown.ts'
import { isInSideBar, outline, sources, weightOf } from './outline.ts'
import { redirectPage, redirects } from './redirects.ts'
import { samples } from './samples.ts'

const root = new URL('../..', import.meta.url).pathname
/** In a checkout. */
export const docsFolder = '.docs'

/** Writes the site into a folder of the repository, replacing its contents. */
export async function buildDocs(folder: string): Promise<{ pages: number; bytes: number }> {
  const to = join(root, folder)
  const files = new Set((await Array.fromAsync(glob(sources, { cwd: root }))).sort())
  // A link to the README leads to the landing page.
  const targets = new Set([...files, 'README.md'])
  const pages = await Promise.all(
    [...files].map(async (file) => renderPage(file, await readFile(join(root, file), 'utf8'), targets)),
  )
  const nav = navigationOf(pages)
  await rm(to, { recursive: true, force: true })
  const written: Record<string, string> = {
    'site.css': (await Promise.all(styles.map(read))).join(''),
    ...(await scripts('search.js', 'search_rank.js', 'page.js', 'redirect.js')),
    'theme.js': await read('dashboard/public/theme.js'),
    'reference.css': (await read('dashboard/src/styles/tokens.css')) + (await read('dev/docs_site/reference.css')),
    'samples.json': JSON.stringify(samples()),
    'search.json': JSON.stringify(searchEntries(pages)),
    [landingAddress]: layout(landing, nav),
    'reference/index.html': layout(elsewhere, nav),
    ...Object.fromEntries(pages.map((page) => [page.address, layout(page, nav)])),
    ...Object.fromEntries(Object.entries(redirects).map(([address, moved]) => [address, redirectPage(moved)])),
  }
  for (const [path, text] of Object.entries(written)) {
    await mkdir(dirname(join(to, path)), { recursive: true })
    await writeFile(join(to, path), text)
  }
  await cp(join(root, 'docs/images'), join(to, 'images'), { recursive: true })
  await cp(join(root, 'dashboard/public/icon.svg'), join(to, 'icon.svg'))
  await cp(join(root, 'openapi.json'), join(to, 'openapi.json'))
  const all = await Array.fromAsync(glob('**/*.*', { cwd: to }))
  const sizes = await Promise.all(all.map(async (file) => (await stat(join(to, file))).size))
  return { pages: pages.length, bytes: sizes.reduce((sum, size) => sum + size, 0) }
}

/** Builds the site unless nothing has changed since the last build. */
export async function ensureDocs(): Promise<void> {
  const made = [...sources, 'docs/images/*', 'dev/docs_site/*', 'dashboard/src/styles/tokens.css', 'openapi.json']
  if (await isStale(`${docsFolder}/index.html`, made)) await buildDocs(docsFolder)
}

const styles = ['dashboard/src/styles/tokens.css', 'dev/docs_site/site.css', 'dev/docs_site/landing.css']
const read = (file: string) => readFile(join(root, file), 'utf8')
const scripts = async (...names: string[]): Promise<Record<string, string>> =>
  Object.fromEntries(await Promise.all(names.map(async (name) => [name, await read(`dev/docs_site/${name}`)] as const)))

function navigationOf(pages: readonly Page[]): Group[] {
  const named = outline.map(({ title, files }) => ({
    title,
    pages: files.flatMap((file) => pages.find((page) => page.file === file) ?? []),
  }))
  const rest = pages.filter((page) => isInSideBar(page.file) && !named.some((group) => group.pages.includes(page)))
  return rest.length ? [...named, { title: 'More', pages: rest }] : named
}

/** Sections of pages, and API operations. Error codes are sections of their page. */
const searchEntries = (pages: readonly Page[]) => [
  ...pages.flatMap(({ file, title, address, sections, keywords }) =>
    sections.map(({ heading, anchor, text }, place) => ({
      page: title,
      heading,
      address: `${address}#${anchor}`,
      text,
      weight: weightOf(file),
      ...(place === 0 && keywords && { keywords }),
    })),
  ),
  ...operations.map(({ id, summary, method, path }) => ({
    page: 'API reference',
    heading: summary,
    // In Swagger UI's naming of sections.
    address: `reference/#/${encodeURIComponent(tagOf.get(id) ?? '')}/${id}`,
    text: `${id} ${method} ${path}`,
    weight: 0.6,
    kind: 'operation',
  })),
]

const tagOf = new Map(
  (Object.values(document.paths) as Record<string, { operationId: string; tags: string[] }>[])
    .flatMap((methods) => Object.values(methods))
    .map(({ operationId, tags }) => [operationId, tags?.[0] ?? '']),
)

/** `gatehouse serve` replaces this page by the reference of its own operations. A copy elsewhere shows this page. */
const elsewhere = {
  address: 'reference/index.html',
  title: 'API reference',
  html: '<h1>API reference</h1><p>Every installation serves it under <code>/docs/reference/</code>. For programs, there is <a href="../openapi.json">openapi.json</a>.</p>',
  sections: [],
}

const landing = { address: landingAddress, title: 'Gatehouse documentation', html: landingPage(), sections: [] }
