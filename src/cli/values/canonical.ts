import { rfc3339 } from '../../kernel/clock.ts'
import { formatHostport, parseHostport } from '../../kernel/edge/hostport.ts'
import { formatCidr, parseCidr } from '../../kernel/ip/cidr.ts'
import { parseRfc3339 } from '../../kernel/time.ts'
import type { Schema } from '../document.ts'

/**
 * The canonical spelling of a text that the API would normalize. Returns an invalid text unchanged, for the API to
 * refuse.
 */
export function canonical(schema: Schema, text: string): string {
  if ('x-cidr' in schema) {
    const { cidr } = parseCidr(text)
    return cidr ? formatCidr(cidr) : text
  }
  if ('x-hostport' in schema) {
    const parsed = parseHostport(text, { wildcard: true })
    return typeof parsed === 'string' ? text : formatHostport(parsed)
  }
  if ('x-domain' in schema) return text.toLowerCase()
  if ('x-moment' in schema) {
    const moment = parseRfc3339(text)
    return moment === undefined ? text : rfc3339(moment)
  }
  return text
}
