import { cp, glob, mkdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { isStale } from '../stale.ts'
import { escapeHtml, type Page, relative, renderPage } from './markdown.ts'
import { isInSideBar, outline, sources } from './outline.ts'
import { redirectPage, redirects } from './redirects.ts'
import { samples } from './samples.ts'

const root = new URL('../..', import.meta.url).pathname
/** In a checkout. */
export const docsFolder = '.docs'

/** Writes the site into a folder of the repository. Whatever was there is gone. */
export async function buildDocs(folder: string): Promise<{ pages: number; bytes: number }> {
  const to = join(root, folder)
  const files = new Set((await Array.fromAsync(glob(sources, { cwd: root }))).sort())
  const pages = await Promise.all(
    [...files].map(async (file) => renderPage(file, await readFile(join(root, file), 'utf8'), files)),
  )
  const nav = navigationOf(pages)
  await rm(to, { recursive: true, force: true })
  const written: Record<string, string> = {
    'site.css': (await read('dashboard/src/styles/tokens.css')) + (await read('dev/docs_site/site.css')),
    'search.js': await read('dev/docs_site/search.js'),
    'redirect.js': await read('dev/docs_site/redirect.js'),
    'theme.js': await read('dashboard/public/theme.js'),
    'reference.css': (await read('dashboard/src/styles/tokens.css')) + (await read('dev/docs_site/reference.css')),
    'samples.json': JSON.stringify(samples()),
    'search.json': JSON.stringify(pages.flatMap(searchEntries)),
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

/** Builds it unless nothing has changed since it was built. */
export async function ensureDocs(): Promise<void> {
  const made = [...sources, 'docs/images/*', 'dev/docs_site/*', 'dashboard/src/styles/tokens.css', 'openapi.json']
  if (await isStale(`${docsFolder}/index.html`, made)) await buildDocs(docsFolder)
}

const read = (file: string) => readFile(join(root, file), 'utf8')

type Group = { title: string; pages: Page[] }

function navigationOf(pages: readonly Page[]): Group[] {
  const named = outline.map(({ title, files }) => ({
    title,
    pages: files.flatMap((file) => pages.find((page) => page.file === file) ?? []),
  }))
  const rest = pages.filter((page) => isInSideBar(page.file) && !named.some((group) => group.pages.includes(page)))
  return rest.length ? [...named, { title: 'More', pages: rest }] : named
}

const searchEntries = ({ title, address, sections }: Page) =>
  sections.map(({ heading, anchor, text }) => ({ page: title, heading, address: `${address}#${anchor}`, text }))

/** `gatehouse serve` has the reference at this place, from the operations that it has. A copy elsewhere has this page. */
const elsewhere = {
  address: 'reference/index.html',
  title: 'API reference',
  html: '<h1>API reference</h1><p>Every installation serves it under <code>/docs/reference/</code>. For programs, there is <a href="../openapi.json">openapi.json</a>.</p>',
  sections: [],
}

function layout(page: Pick<Page, 'address' | 'title' | 'html' | 'sections'>, nav: readonly Group[]): string {
  const to = (address: string) => relative(page.address, address)
  const link = (address: string, title: string) => {
    const isHere = address === page.address || (address === 'reference/' && page.address.startsWith('reference/'))
    return `<li><a href="${to(address)}"${isHere ? ' aria-current="page"' : ''}>${escapeHtml(title)}</a></li>`
  }
  const groups = nav.map(({ title, pages }) => {
    const links = pages.map(({ address, title: own }) => link(address, address === 'index.html' ? 'Overview' : own))
    if (title === 'Reference') links.splice(1, 0, link('reference/', 'API reference'))
    return `<h2>${title}</h2><ul>${links.join('')}</ul>`
  })
  const contents = page.sections
    .slice(1)
    .map(({ anchor, heading }) => `<li><a href="#${anchor}">${escapeHtml(heading)}</a></li>`)
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escapeHtml(page.title)} · Gatehouse</title>
<link rel="icon" href="${to('icon.svg')}"><link rel="stylesheet" href="${to('site.css')}">
<script src="${to('theme.js')}"></script><script src="${to('search.js')}" data-root="${to('')}" defer></script></head><body>
<a class="skip" href="#content">Skip to content</a>
<header><a class="home" href="${to('index.html')}">Gatehouse</a>
<search><input type="search" id="search" placeholder="Search" aria-label="Search the documentation" autocomplete="off">
<ul id="found" aria-live="polite" hidden></ul></search></header>
<nav aria-label="Pages">${groups.join('')}</nav>
<main id="content">${page.html}</main>
<aside>${contents.length > 1 ? `<nav aria-label="On this page"><h2>On this page</h2><ul>${contents.join('')}</ul></nav>` : ''}</aside>
</body></html>
`
}
