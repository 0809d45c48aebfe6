import { version } from '../../src/config/version.ts'
import { landingAddress } from './landing.ts'
import { escapeHtml, type Page, relative, type Section } from './markdown.ts'

export type Group = { title: string; pages: Page[] }
export type Shown = Pick<Page, 'address' | 'title' | 'html' | 'sections'>

/** A complete page: header, menu, contents, and links to the previous and next page. */
export function layout(page: Shown, nav: readonly Group[]): string {
  const to = (address: string) => relative(page.address, address)
  const isLanding = page.address === landingAddress
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>${isLanding ? 'Gatehouse documentation' : `${escapeHtml(page.title)} · Gatehouse`}</title>
<link rel="icon" href="${to('icon.svg')}"><link rel="stylesheet" href="${to('site.css')}">
<script src="${to('theme.js')}"></script><script src="${to('search.js')}" type="module"></script>
<script src="${to('page.js')}" type="module"></script></head><body${isLanding ? ' class="home"' : ''}>
<a class="skip" href="#content">Skip to content</a>
<header><a class="brand" href="${to(landingAddress)}"><img src="${to('icon.svg')}" alt="">Gatehouse</a>
<span class="version">${escapeHtml(version)}</span>
<search><input type="search" id="search" placeholder="Search pages, operations and error codes" aria-label="Search the documentation" autocomplete="off">
<ul id="found" aria-live="polite" hidden></ul></search></header>
<details class="menu"><summary>All pages</summary>${menu(page, nav, 'Menu')}</details>
${menu(page, nav, 'Pages')}
<main id="content">${page.html}${isLanding ? '' : neighbors(page, nav)}
<footer>Gatehouse ${escapeHtml(version)}. <a href="${to('changelog.html')}">Changelog</a> · <a href="${to('openapi.json')}">openapi.json</a> · <a href="${to('reference/errors.html')}">Error codes</a></footer></main>
<aside>${isLanding ? '' : contents(page.sections)}</aside>
</body></html>
`
}

/** The service provides the reference, which is not a page of this site. It follows the conventions. */
function menu(page: Shown, nav: readonly Group[], name: string): string {
  const link = (address: string, title: string) => {
    const isHere = address === page.address || (address === 'reference/' && page.address === 'reference/index.html')
    return `<li><a href="${relative(page.address, address)}"${isHere ? ' aria-current="page"' : ''}>${escapeHtml(title)}</a></li>`
  }
  const groups = nav.map(({ title, pages }) => {
    const links = pages.map(({ address, title: own }) => link(address, own))
    if (title === 'Reference') links.splice(1, 0, link('reference/', 'API reference'))
    return `<h2>${title}</h2><ul>${links.join('')}</ul>`
  })
  return `<nav aria-label="${name}">${groups.join('')}</nav>`
}

/** Two levels, so that the table of contents of a long page stays short. */
function contents(sections: readonly Section[]): string {
  const shown = sections.filter(({ depth }) => depth === 2 || depth === 3)
  // On a page of error codes or of fields, the second level would be longer than the screen.
  const fitting = shown.length > 24 ? shown.filter(({ depth }) => depth === 2).slice(0, 40) : shown
  if (fitting.length < 2) return ''
  const links = fitting.map(
    ({ anchor, heading, depth }) => `<li class="depth-${depth}"><a href="#${anchor}">${escapeHtml(heading)}</a></li>`,
  )
  return `<nav aria-label="On this page"><h2>On this page</h2><ul>${links.join('')}</ul></nav>`
}

function neighbors({ address }: Shown, nav: readonly Group[]): string {
  const pages = nav.flatMap((group) => group.pages)
  const place = pages.findIndex((page) => page.address === address)
  if (place < 0) return ''
  const link = (page: Page | undefined, rel: string, word: string) =>
    page
      ? `<a rel="${rel}" href="${relative(address, page.address)}"><small>${word}</small>${escapeHtml(page.title)}</a>`
      : '<span></span>'
  return `<nav class="neighbors" aria-label="Previous and next">${link(pages[place - 1], 'prev', 'Previous')}${link(pages[place + 1], 'next', 'Next')}</nav>`
}
