// Phrases that mark a sentence as translated. The list is short on purpose: each has a plainer replacement that always fits.
import assert from 'node:assert/strict'
import { glob, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'

const root = new URL('..', import.meta.url).pathname
const prose = ['*.md', '{docs,deploy,clients/typescript}/**/*.md']
const code = [
  'src/**/*.{ts,lua}',
  '{dashboard,clients/typescript}/src/**/*.{ts,tsx}',
  '{test,dev,bench}/**/*.{ts,sh}',
  'dashboard/src/**/*.css',
]
const generated = '{dashboard,clients/typescript}/src/generated/**'
const files = await Array.fromAsync(
  glob([...prose, ...code], { cwd: root, exclude: [generated, 'test/prose.test.ts'] }),
)

const calques: readonly { banned: RegExp; write: string }[] = [
  { banned: /\banew\b/gi, write: 'again' },
  { banned: /\bwhom\b/gi, write: 'who, or name the subject' },
  { banned: /\bserv(?:e|es|ed|ing)\s+on\b(?!\s+(?:port|the|a|an|127)\b)/gi, write: 'keeps serving' },
  { banned: /\bcan\s+not\b/gi, write: 'cannot' },
  { banned: /\bcure:/gi, write: 'hint:' },
  { banned: /\btak(?:e|es|en|ing)\s+(?:it|them|that)\s+away\b/gi, write: 'removes it' },
  { banned: /\btold\s+to\s+(?:end|stop)\b/gi, write: 'receives SIGTERM, is stopped' },
  { banned: /\b(?:is|are)\s+told\s+(?:to|by|of|that|about|once|so)\b/gi, write: 'receives, learns, is shown' },
  { banned: /\b(?:is|are)\s+no\s+good\b/gi, write: 'is not valid' },
  { banned: /\bstarts?\s+once\s+more\b/gi, write: 'starts again' },
  { banned: /\blets?\s+go\s+of\b/gi, write: 'drops, releases' },
  { banned: /\bin\s+mid-/gi, write: 'mid-write, during a write' },
  { banned: /\bhas\s+(?:it|them)\s+not\b/gi, write: 'lacks it' },
  { banned: /\bwhat\s+is\s+left\s+out\s+stays\b/gi, write: 'omitted fields keep their values' },
  { banned: /\bis\s+answered\s+with\s+what\b/gi, write: 'returns' },
  { banned: /\bgoes\s+on\s+by\s+itself\b/gi, write: 'recovers' },
  { banned: /\bgo(?:es)?\s+over\s+from\b/gi, write: 'switches to' },
  { banned: /\b(?:found|finds|find)\s+no\s+place\b/gi, write: 'did not fit, the buffer was full' },
  { banned: /\bfor\s+ever\b/gi, write: 'forever' },
  { banned: /\bthe\s+like\b/gi, write: 'similar ones, or name them' },
  { banned: /\bof\s+before\b(?<!\bfor \(const [^)\n]*)/gi, write: 'earlier, previous, before 0.2' },
]

/** A sentence with one of these hides its subject. */
const pronouns: typeof calques = [
  {
    banned: /\b(?:whoever|somebody|nobody)\b|[a-z](?:Whoever|Somebody|Nobody|Anew)\b/gi,
    write: 'the role: an attacker, another account, no one',
  },
  { banned: /\bwhatever\b/gi, write: 'the noun: every value, even if …, with any …' },
]

/** At the beginning of a comment, string, sentence or test title. */
const inCode: typeof calques = [
  { banned: /(?:(?:\/\/|\*|^|[.:;!?#]|--)\s*|['"`>(])Of [a-z]/gm, write: 'the subject first' },
  {
    banned: /\btest\(\s*['"`](?:row \d+: )?of (?:one|two|a|an|all|several|many|concurrent|those|the)\b/g,
    write: 'the subject first',
  },
]
/** The name of a Unix user, and the address of a page that has moved. */
const data = /'nobody'|chown nobody|'nobody-can-sign-in-to-the-dashboard'/g

/** For readers of the product, whose pages are read more often than comments. */
const inPagesForUsers: typeof calques = [
  { banned: /(?:^|[.!?]\s+)Of (?:one|two|a|an|all|several|those|the)\b[^.\n]*,/gm, write: 'the subject first' },
  {
    banned: /(?<!(?:answer|response)\s)\b(?:is|are) [45]\d\d\b(?! bytes)/g,
    write: 'returns 409, gets 409, fails with 409',
  },
  { banned: /\balso (?:when|with|if|those)\b/gi, write: 'even when, including' },
]
const userPage = /^docs\/(?:start|guides|reference|operate|explain)\//
function listFor(file: string): typeof calques {
  if (!file.endsWith('.md')) return [...calques, ...pronouns, ...inPagesForUsers, ...inCode]
  return userPage.test(file) ? [...calques, ...pronouns, ...inPagesForUsers] : calques
}

test('docs, comments, messages and test titles avoid the listed calques', async () => {
  const found: string[] = []
  for (const file of files) {
    const text = (await readFile(join(root, file), 'utf8')).replaceAll(data, '')
    for (const { banned, write } of listFor(file)) {
      for (const { 0: phrase, index } of text.matchAll(banned)) {
        found.push(`${file}:${text.slice(0, index).split('\n').length}: '${phrase}'; write: ${write}`)
      }
    }
  }
  assert.deepEqual(found, [])
})
