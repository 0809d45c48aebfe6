// Words that mark a sentence as translated. The list is short on purpose: each has a plainer replacement that always fits.
import assert from 'node:assert/strict'
import { glob, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'

const root = new URL('..', import.meta.url).pathname
const files = await Array.fromAsync(glob(['*.md', 'docs/**/*.md', 'deploy/**/*.md'], { cwd: root }))

const calques: readonly { banned: RegExp; write: string }[] = [
  { banned: /\banew\b/i, write: 'again' },
  { banned: /\bwhom\b/i, write: 'who, or name the subject' },
  { banned: /\bserv(?:e|es|ed|ing) on\b(?! (?:port|the|a|an|127)\b)/i, write: 'keeps serving' },
  { banned: /\bcan not\b/i, write: 'cannot' },
  { banned: /\bcure:/i, write: 'hint:' },
  { banned: /\btak(?:e|es|en|ing) (?:it|them|that) away\b/i, write: 'removes it' },
  { banned: /\btold to (?:end|stop)\b/i, write: 'is stopped, receives SIGTERM' },
  { banned: /\bis told (?:to|by|of|that|about)\b/i, write: 'learns, receives' },
]

/** Where a banned word is right, and why. */
const allowed: readonly { file: string; line: RegExp; because: string }[] = []

test('prose avoids the listed calques', async () => {
  const found: string[] = []
  for (const file of files) {
    const lines = (await readFile(join(root, file), 'utf8')).split('\n')
    for (const [index, line] of lines.entries()) {
      if (allowed.some((exception) => exception.file === file && exception.line.test(line))) continue
      for (const { banned, write } of calques) {
        const [word] = banned.exec(line) ?? []
        if (word) found.push(`${file}:${index + 1}: '${word}'; write: ${write}`)
      }
    }
  }
  assert.deepEqual(found, [])
})
