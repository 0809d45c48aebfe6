// Blocks of code in a page of the docs. What is marked `sh` can be typed: in docs/operate as it stands, on a machine that
// docs/guides/install-debian.md has set up; in docs/guides with ids of your own. Any other block of commands says why not.
export type PageBlock = { language: string; text: string /** The line before, if it is a comment. */; comment: string }

const fence = /(?:^ *<!-- ([^\n]*?) -->\n)?^( *)```(\w*)\n(.*?)^\2```$/gms

/** Includes blocks in lists, without their indent. */
export const blocksOf = (page: string): PageBlock[] =>
  [...page.matchAll(fence)].map(([, comment = '', indent = '', language = '', text = '']) => ({
    language,
    text: text.replaceAll(new RegExp(`^${indent}`, 'gm'), ''),
    comment,
  }))

export const commandsOf = (page: string): string[] =>
  blocksOf(page)
    .filter(({ language }) => language === 'sh')
    .map(({ text }) => text)
