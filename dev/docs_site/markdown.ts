import { dirname, join } from 'node:path/posix'
import { Marked, type Tokens } from 'marked'
import { addressOf } from './outline.ts'

/** A heading with its text, up to the next heading: the unit of a search result. */
export type Section = {
  readonly depth: number
  readonly heading: string
  readonly anchor: string
  readonly text: string
}
export type Page = {
  readonly file: string
  readonly address: string
  readonly title: string
  readonly html: string
  readonly sections: readonly Section[]
  /** Synonyms from a comment `<!-- search: … -->`. */
  readonly keywords: string
}

/** Same anchors as on GitHub, because links in the repository use those. */
const anchorOf = (text: string): string =>
  text
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\s_-]/gu, '')
    .trim()
    .replaceAll(' ', '-')

const entities: Record<string, string> = { '&amp;': '&', '&lt;': '<', '&gt;': '>', '&quot;': '"', '&#39;': "'" }
const textOf = (html: string): string =>
  html
    .replaceAll(/<[^>]*>/g, ' ')
    .replaceAll(/&(?:amp|lt|gt|quot|#39);/g, (found) => entities[found] ?? found)
    .replaceAll(/\s+/g, ' ')
    .trim()

export function relative(fromAddress: string, to: string): string {
  const depth = fromAddress.split('/').length - 1
  return '../'.repeat(depth) + to
}

/** `files` are the pages of the site. A link to any other file of the repository becomes plain text. */
export function renderPage(file: string, markdown: string, files: ReadonlySet<string>): Page {
  const address = addressOf(file)
  const inSite = (target: string): string | undefined => {
    const [path = '', anchor] = target.split('#')
    const wanted = join(dirname(file), path)
    const place = files.has(wanted)
      ? addressOf(wanted)
      : wanted === 'openapi.json'
        ? 'openapi.json'
        : /^docs\/images\//.test(wanted)
          ? wanted.slice('docs/'.length)
          : undefined
    return place && relative(address, place) + (anchor ? `#${anchor}` : '')
  }
  const taken = new Map<string, number>()
  /** GitHub numbers repeated headings. */
  const unique = (anchor: string): string => {
    const before = taken.get(anchor) ?? 0
    taken.set(anchor, before + 1)
    return before === 0 ? anchor : `${anchor}-${before}`
  }
  const marked = new Marked({
    renderer: {
      heading({ tokens, depth }: Tokens.Heading) {
        const inner = this.parser.parseInline(tokens)
        const anchor = unique(anchorOf(textOf(inner)))
        const link = depth > 1 ? ` <a class="anchor" href="#${anchor}" aria-label="Link to this section">#</a>` : ''
        return `<h${depth} id="${anchor}">${inner}${link}</h${depth}>\n`
      },
      link({ href, tokens }: Tokens.Link) {
        const inner = this.parser.parseInline(tokens)
        if (/^(https?:|mailto:|#)/.test(href)) return `<a href="${escapeHtml(href)}">${inner}</a>`
        const target = inSite(href)
        return target ? `<a href="${escapeHtml(target)}">${inner}</a>` : inner
      },
      image({ href, text }: Tokens.Image) {
        return `<img src="${escapeHtml(inSite(href) ?? href)}" alt="${escapeHtml(text)}">`
      },
      // `> [!WARNING]`, as GitHub shows it.
      blockquote({ tokens }: Tokens.Blockquote) {
        const inner = this.parser.parse(tokens)
        const [mark, kind = ''] = /^<p>\[!(NOTE|TIP|WARNING)\]\s*/.exec(inner) ?? []
        if (!mark) return `<blockquote>${inner}</blockquote>`
        const title = kind[0] + kind.slice(1).toLowerCase()
        return `<div class="callout ${kind.toLowerCase()}" role="note"><strong>${title}</strong><p>${inner.slice(mark.length)}</div>`
      },
      // Comments for our own tools are removed.
      html({ text }: Tokens.HTML | Tokens.Tag) {
        return text.startsWith('<!--') ? '' : escapeHtml(text)
      },
    },
  })
  const html = (marked.parse(markdown) as string).replaceAll(
    /<table>.*?<\/table>/gs,
    (table) => `<div class="wide" tabindex="0" role="region" aria-label="Table">${withLabels(table)}</div>`,
  )
  const sections = html
    .split(/(?=<h[1-6] )/)
    .filter((part) => part.startsWith('<h'))
    .map((part) => {
      const [, depth = '1', anchor = '', heading = '', rest = ''] =
        /^<h(\d) id="([^"]*)">(.*?)<\/h\d>(.*)$/s.exec(part) ?? []
      return { depth: Number(depth), anchor, heading: textOf(heading).replace(/ #$/, ''), text: textOf(rest) }
    })
  const [, keywords = ''] = /<!-- search: (.*?) -->/.exec(markdown) ?? []
  return { file, address, title: sections[0]?.heading ?? file, html, sections, keywords }
}

/** A narrow screen shows no column headings (site.css), so each cell repeats its own. */
function withLabels(table: string): string {
  const labels = [...table.matchAll(/<th[^>]*>(.*?)<\/th>/gs)].map(([, inner = '']) => escapeHtml(textOf(inner).trim()))
  return table.replaceAll(/<tr>.*?<\/tr>/gs, (row) => {
    let column = 0
    return row.replaceAll('<td>', () => `<td data-label="${labels[column++] ?? ''}">`)
  })
}

export const escapeHtml = (text: string): string =>
  text.replaceAll(/[&<>"]/g, (character) => `&#${character.charCodeAt(0)};`)
