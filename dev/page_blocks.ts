// Blocks of code in a page of the docs. What is marked `sh` can be typed as it stands on a machine that
// docs/guides/install-debian.md has set up; a block without a language is a pattern, with names to replace.
export type PageBlock = { language: string; text: string /** The line before, if it is a comment. */; comment: string }

const fence = /(?:^ *<!-- ([^\n]*?) -->\n)?^( *)```(\w*)\n(.*?)^\2```$/gms

/** Including those in lists, without their indent. */
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
