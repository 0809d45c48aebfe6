import type { IncomingMessage } from 'node:http'
import { chunksWithin, type Intake } from '../../http/input/body.ts'
import { invalidField } from '../../kernel/errors.ts'
import { yieldToEventLoop } from '../../kernel/flow/yield_to_event_loop.ts'
import { parseCidr, spelledCidr } from '../../kernel/ip/cidr.ts'
import { textFault } from '../../kernel/text.ts'
import { canonicalExpiry, parseRfc3339 } from '../../kernel/time.ts'
import { maxRules, type RuleSetShown } from './schema.ts'
import type { NewRule } from './store.ts'

/** A text line without metadata keeps the current metadata of its rule. JSON always replaces it. */
export type SentRule = NewRule & { keepsMetadata: boolean }
/** Parsed rules with their line numbers, for messages about the whole set. */
export type TextRuleSet = { rules: SentRule[]; lineOf: readonly number[] }

/**
 * Fits 100,000 rules with typical descriptions. Sets with long ones on every line, or with metadata, must be divided
 * among several policies.
 */
export const ruleTextLimitBytes = 32 * 1024 * 1024

/** Lines per slice, a few milliseconds of work before yielding to other requests. */
const linesAtOnce = 500
/** Memory per rule in addition to its text. */
const bytesPerRule = 250

/** Length of the longest rule with percent-encoded metadata. Without a limit, one line could fill the body. */
const maxLineLength = 16_384
const form =
  "must be 'allow CIDR' or 'deny CIDR', optionally followed by expires=TIME, metadata=TEXT, description=TEXT and a # with a description"

/**
 * Undefined for an empty line or a comment. Throws a refusal that names the line. Splits at '#' and spaces, because a
 * regular expression with two optional runs of spaces took minutes for a line with 300,000 of them.
 */
export function parseRuleLine(line: string, number: number): SentRule | undefined {
  const place = `line ${number}`
  if (line.length > maxLineLength) throw invalidField(place, `must be at most ${maxLineLength} characters`)
  const hash = line.indexOf('#')
  const [action, range = '', ...options] = wordsOf(line, hash < 0 ? line.length : hash)
  if (action === undefined) return undefined
  if ((action !== 'allow' && action !== 'deny') || !range) throw invalidField(place, form)
  const { cidr, fault } = parseCidr(range)
  if (fault !== undefined) throw invalidField(place, fault)
  const comment = hash < 0 ? '' : line.slice(hash + 1).trim()
  const rule: SentRule = {
    action,
    cidr: spelledCidr(range, cidr),
    expires_at: null,
    description: comment || null,
    metadata: null,
    keepsMetadata: true,
  }
  for (const option of options) readOption(place, option, rule)
  const textProblem = textFault(rule.description ?? '', 255) ?? textFault(rule.metadata ?? '', 4096)
  if (textProblem) throw invalidField(place, textProblem)
  return rule
}

/** Splits at spaces and tabs, without a regular expression and without empty words. */
function wordsOf(line: string, end: number): string[] {
  const words: string[] = []
  let start = 0
  for (let at = 0; at <= end; at++) {
    const code = at < end ? line.charCodeAt(at) : space
    if (code !== space && code !== tab) continue
    if (at > start) words.push(line.slice(start, at))
    start = at + 1
  }
  return words
}
const space = 0x20
const tab = 0x09

/**
 * `description=` and `metadata=` are percent-encoded, so they can hold what a comment cannot: line breaks, and leading
 * or trailing spaces. An empty value clears the field.
 */
function readOption(place: string, option: string, rule: SentRule): void {
  const [name, written] = option.split(/=(.*)/s)
  if (written === undefined) throw invalidField(place, form)
  if (name === 'expires' && rule.expires_at === null) {
    if (parseRfc3339(written) === undefined)
      throw invalidField(place, 'must have an RFC 3339 time after expires=, such as 2030-01-31T12:00:00Z')
    rule.expires_at = canonicalExpiry(written)
  } else if (name === 'metadata' && rule.keepsMetadata) {
    rule.metadata = decoded(place, name, written)
    rule.keepsMetadata = false
  } else if (name === 'description' && rule.description === null) rule.description = decoded(place, name, written)
  else throw invalidField(place, form)
}

function decoded(place: string, name: string, written: string): string | null {
  try {
    return decodeURIComponent(written) || null
  } catch (cause) {
    throw invalidField(place, `must have percent-encoded UTF-8 after ${name}=`, cause)
  }
}

/**
 * Formats rules as lines for `readRuleText`, in slices. Puts each description on one line: a line break would start
 * another rule.
 */
export function* formatRuleText({ rules }: RuleSetShown): Generator<string> {
  const line = ({ action, cidr, expires_at, description }: RuleSetShown['rules'][number]) => {
    const expiry = expires_at === undefined ? '' : ` expires=${expires_at}`
    const comment = description?.replaceAll(/\s*[\r\n]\s*/g, ' ').trim()
    return `${action} ${cidr}${expiry}${comment ? ` # ${comment}` : ''}\n`
  }
  for (let start = 0; start < rules.length; start += 2_000)
    yield rules
      .slice(start, start + 2_000)
      .map(line)
      .join('')
}

/**
 * Parses `allow|deny CIDR # description` lines as they arrive. The text is never held completely, and other requests
 * run between two chunks.
 */
export async function readRuleText(request: IncomingMessage, intake: Intake): Promise<TextRuleSet> {
  const decoder = new TextDecoder('utf-8', { fatal: true })
  const rules: SentRule[] = []
  const lineOf: number[] = []
  let rest = ''
  let number = 0
  const take = (line: string) => {
    const rule = parseRuleLine(line.endsWith('\r') ? line.slice(0, -1) : line, ++number)
    if (!rule) return
    if (rules.push(rule) > maxRules)
      throw invalidField(`line ${number}`, `exceeds the limit of ${maxRules} rules in a policy`)
    lineOf.push(number)
  }
  for await (const chunk of chunksWithin(request, intake)) {
    const lines = (rest + decode(decoder, chunk)).split('\n')
    rest = lines.pop() ?? ''
    for (let start = 0; start < lines.length; start += linesAtOnce) {
      await yieldToEventLoop()
      const before = rules.length
      lines.slice(start, start + linesAtOnce).forEach(take)
      intake.hold((rules.length - before) * bytesPerRule)
    }
    // Rejects an endless line early: collecting it and searching it again with every chunk would take quadratic time.
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
