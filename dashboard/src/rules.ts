import { formatAddress, parseAddress } from '../../src/kernel/ip/address.ts'
import { type Cidr, cidrAround, formatCidr, parseCidr } from '../../src/kernel/ip/cidr.ts'
import { toRuleLine } from '../../src/kernel/ip/rule_line.ts'
import type { Shapes } from './api/client.ts'

export type Rule = Omit<Shapes['RuleOfSet'], 'id'>

/** A rule set as a text body, because JSON bodies have a lower size limit than policies need. */
export const asText = (rules: readonly Rule[]) => ({
  body: rules.map(toRuleLine).join('\n'),
  bodySerializer: String,
  headers: { 'Content-Type': 'text/plain' },
  // Kept on the request for drafts, which are JSON.
  rules,
})

/** An address as the service writes it in a rule: with a prefix length. */
export const asRange = (address: string): string => `${address}/${address.includes(':') ? 128 : 32}`

/** A policy has each range once per action. */
export const keyOf = ({ action, cidr }: Pick<Rule, 'action' | 'cidr'>): string => `${action} ${cidr}`

/** Intended changes, separate from the policy's rules, so that they can be shown and applied to a newer state. */
export type Draft = { readonly added: ReadonlyMap<string, Rule>; readonly removed: ReadonlyMap<string, Rule> }
export const emptyDraft: Draft = { added: new Map(), removed: new Map() }
export const isEmpty = ({ added, removed }: Draft): boolean => added.size === 0 && removed.size === 0

export function applied(rules: readonly Rule[], draft: Draft): readonly Rule[] {
  if (isEmpty(draft)) return rules
  const { added, removed } = draft
  const kept = rules.filter((rule) => !added.has(keyOf(rule)) && !removed.has(keyOf(rule)))
  return [...kept, ...added.values()]
}

export function withAdded(draft: Draft, current: readonly Rule[], rules: readonly Rule[]): Draft {
  const existing = new Map(current.map((rule) => [keyOf(rule), rule]))
  const added = new Map(draft.added)
  const removed = new Map(draft.removed)
  for (const rule of rules) {
    const key = keyOf(rule)
    const before = existing.get(key)
    const merged = { ...(before?.metadata !== undefined && { metadata: before.metadata }), ...rule }
    removed.delete(key)
    if (!before || !isSame(before, merged)) added.set(key, merged)
    else added.delete(key)
  }
  return { added, removed }
}

export function withRemoved(draft: Draft, current: readonly Rule[], rules: readonly Rule[]): Draft {
  const existing = new Set(current.map(keyOf))
  const added = new Map(draft.added)
  const removed = new Map(draft.removed)
  for (const rule of rules) {
    const key = keyOf(rule)
    added.delete(key)
    if (existing.has(key)) removed.set(key, rule)
  }
  return { added, removed }
}

/** Action and range identify a rule: changing one of them removes the old rule and adds another. */
export function withChanged(draft: Draft, current: readonly Rule[], before: Rule, after: Rule): Draft {
  const rest = keyOf(before) === keyOf(after) ? draft : withRemoved(draft, current, [before])
  return withAdded(rest, current, [after])
}

/** Makes the list the complete rule set. */
export function replacedBy(current: readonly Rule[], rules: readonly Rule[]): Draft {
  const wanted = new Set(rules.map(keyOf))
  const gone = current.filter((rule) => !wanted.has(keyOf(rule)))
  return withRemoved(withAdded(emptyDraft, current, rules), current, gone)
}

const isSame = (a: Rule, b: Rule): boolean =>
  a.description === b.description && a.expires_at === b.expires_at && a.metadata === b.metadata

export const hasSameRules = (before: readonly Rule[] | undefined, now: readonly Rule[]): boolean =>
  before?.length === now.length &&
  before.every((rule, place) => {
    const other = now[place]
    return other !== undefined && rule.cidr === other.cidr && rule.action === other.action && isSame(rule, other)
  })

/**
 * Matches text in the range or description; for an address, all ranges that contain it. There are at most 129 of those,
 * so each rule needs one look-up instead of arithmetic.
 */
export function matcherOf(search: string): (rule: Rule) => boolean {
  const text = search.trim().toLowerCase()
  if (!text) return () => true
  const address = parseAddress(text)
  if (!address)
    return ({ cidr, description }) => cidr.includes(text) || (description?.toLowerCase().includes(text) ?? false)
  const ranges = new Set<string>()
  for (let length = address.family === 4 ? 32 : 128; length >= 0; length--)
    ranges.add(formatCidr(cidrAround(address, length)))
  const alone = formatAddress(address)
  return ({ cidr }) => ranges.has(cidr) || cidr.startsWith(alone)
}

export type Parsed = { rules: Rule[]; faults: { line: number; text: string; fault: string }[] }

/**
 * Parses lines of `allow|deny RANGE expires=MOMENT # description`, or of a range alone, which gets the chosen action.
 * Accepts host bits, which the server refuses, because lists from elsewhere contain them; the preview shows the
 * resulting range. Yields between chunks, so that a long list does not freeze the page.
 */
export async function parseList(text: string, action: Rule['action']): Promise<Parsed> {
  const rules = new Map<string, Rule>()
  const faults: Parsed['faults'] = []
  for (const [index, line] of text.split(/\r?\n/).entries()) {
    if (index % 2_000 === 1_999) await new Promise((resume) => setTimeout(resume))
    const parsed = parseLine(line, action)
    if (!parsed) continue
    if ('fault' in parsed) faults.push({ line: index + 1, text: line.slice(0, 80), fault: parsed.fault })
    else rules.set(keyOf(parsed), parsed)
  }
  return { rules: [...rules.values()], faults }
}

function parseLine(line: string, fallback: Rule['action']): Rule | { fault: string } | undefined {
  const hash = line.indexOf('#')
  const words = (hash < 0 ? line : line.slice(0, hash)).split(/[\s,;]+/).filter(Boolean)
  if (words.length === 0) return undefined
  const [first = ''] = words
  const named = first === 'allow' || first === 'deny' ? first : undefined
  const [written = '', expiry, ...more] = named ? words.slice(1) : words
  const expires = expiry?.startsWith('expires=') ? expiry.slice('expires='.length) : undefined
  if ((expiry && expires === undefined) || more.length) return { fault: "must be 'allow RANGE' or 'deny RANGE'" }
  if (expires !== undefined && Number.isNaN(Date.parse(expires))) return { fault: 'has an expiry that is no moment' }
  const { cidr = withoutHostBits(written), fault } = parseCidr(written)
  if (!cidr) return { fault: fault ?? '' }
  const description = hash < 0 ? '' : line.slice(hash + 1).trim()
  return {
    cidr: formatCidr(cidr),
    action: named ?? fallback,
    ...(description && { description }),
    ...(expires !== undefined && { expires_at: new Date(expires).toISOString() }),
  }
}

/** The range without host bits, such as that of 192.0.2.18/28. */
export function rangeWithoutHostBits(written: string): string | undefined {
  const cidr = withoutHostBits(written)
  return cidr && formatCidr(cidr)
}

function withoutHostBits(written: string): Cidr | undefined {
  const [text = '', length = ''] = written.split('/')
  const address = parseAddress(text)
  const isLength = /^\d{1,3}$/.test(length) && Number(length) <= (address?.family === 4 ? 32 : 128)
  return address && isLength ? cidrAround(address, Number(length)) : undefined
}
