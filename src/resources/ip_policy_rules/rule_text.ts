import type { IncomingMessage } from 'node:http'
import { chunksOf } from '../../http/body.ts'
import { invalidField, Refusal } from '../../kernel/errors.ts'
import { parseCidr } from '../../kernel/ip/cidr.ts'
import { textFault } from '../../kernel/text.ts'
import { parseRfc3339 } from '../../kernel/time.ts'
import { maxRules, type RuleSet, type RuleSetShown } from './schema.ts'

type Rule = RuleSet['rules'][number]
/** Where in the text each rule stands, for messages about the set as a whole. */
export type TextRuleSet = RuleSet & { lineOf?: readonly number[] }

const expiryWord = 'expires='

/** The longest rule takes about 320; the rest is for comments. A bound, or one line could be the whole body. */
const maxLineLength = 8_192

/**
 * Undefined for an empty line and a comment. Throws a refusal that names the line. Cut at '#' and at spaces rather than
 * matched as a whole: a pattern with optional spaces in two places took minutes for a line with 300,000 of them.
 */
export function parseRuleLine(line: string, number: number): Rule | undefined {
  const place = `line ${number}`
  if (line.length > maxLineLength) throw invalidField(place, `must be at most ${maxLineLength} characters`)
  const hash = line.indexOf('#')
  const words = (hash < 0 ? line : line.slice(0, hash)).split(/[ \t]/).filter(Boolean)
  if (words.length === 0) return undefined
  const [action, cidr = '', expiry, ...more] = words
  const expires = expiry?.startsWith(expiryWord) ? expiry.slice(expiryWord.length) : undefined
  if ((action !== 'allow' && action !== 'deny') || !cidr || (expiry && expires === undefined) || more.length)
    throw invalidField(
      place,
      "must be 'allow CIDR' or 'deny CIDR', with expires=MOMENT after it and a description after # if you like",
    )
  if (expires !== undefined && parseRfc3339(expires) === undefined)
    throw invalidField(place, 'must have a moment in RFC 3339 after expires=, such as 2030-01-31T12:00:00Z')
  const description = hash < 0 ? '' : line.slice(hash + 1).trim()
  const fault = parseCidr(cidr).fault ?? textFault(description, 255)
  if (fault) throw invalidField(place, fault)
  return { action, cidr, description: description || null, ...(expires !== undefined && { expires_at: expires }) }
}

/**
 * Rules as the lines that `readRuleText` reads. A description goes on one line whatever is in it: a line break in one
 * would begin a rule that nobody wrote.
 */
export const formatRuleText = ({ rules }: RuleSetShown): string =>
  rules
    .map(({ action, cidr, expires_at, description }) => {
      const expiry = expires_at === undefined ? '' : ` ${expiryWord}${expires_at}`
      const comment = description?.replaceAll(/\s*[\r\n]\s*/g, ' ').trim()
      return `${action} ${cidr}${expiry}${comment ? ` # ${comment}` : ''}\n`
    })
    .join('')

/**
 * Reads `allow|deny CIDR # description` lines as they arrive: the text is never held whole, and other requests are
 * served between two chunks of it.
 */
export async function readRuleText(request: IncomingMessage, limitBytes: number): Promise<TextRuleSet> {
  const decoder = new TextDecoder('utf-8', { fatal: true })
  const rules: Rule[] = []
  const lineOf: number[] = []
  let bytes = 0
  let rest = ''
  let number = 0
  const take = (line: string) => {
    const rule = parseRuleLine(line.endsWith('\r') ? line.slice(0, -1) : line, ++number)
    if (!rule) return
    if (rules.push(rule) > maxRules)
      throw invalidField(`line ${number}`, `is one rule too many: a policy has at most ${maxRules}`)
    lineOf.push(number)
  }
  for await (const chunk of chunksOf(request)) {
    bytes += chunk.length
    if (bytes > limitBytes) throw new Refusal('ERR_BODY_TOO_LARGE', `The body must be at most ${limitBytes} bytes.`)
    const lines = (rest + decode(decoder, chunk)).split('\n')
    rest = lines.pop() ?? ''
    lines.forEach(take)
    // Told at once: to collect an endless line and look through it again with every chunk would take quadratic time.
    if (rest.length > maxLineLength) take(rest)
  }
  rest += decode(decoder)
  if (rest) take(rest)
  return { rules, lineOf }
}

function decode(decoder: InstanceType<typeof TextDecoder>, chunk?: Buffer): string {
  try {
    return decoder.decode(chunk, { stream: chunk !== undefined })
  } catch (cause) {
    throw invalidField('body', 'must be UTF-8', cause)
  }
}
