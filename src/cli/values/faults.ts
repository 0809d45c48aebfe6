import { closest } from '../../kernel/closest.ts'
import { domainFault } from '../../kernel/edge/domains.ts'
import { type HostportRules, hostportFault } from '../../kernel/edge/hostport.ts'
import { parseCidr } from '../../kernel/ip/cidr.ts'
import { textFault } from '../../kernel/text.ts'
import { parseRfc3339 } from '../../kernel/time.ts'
import { deref, type Schema, typesOf } from '../document.ts'

/** The path to a value from the top. */
export type Place = readonly (string | number)[]

/** Keywords that only this file evaluates. */
type Checked = Schema & {
  minimum?: number
  maximum?: number
  minItems?: number
  maxItems?: number
  uniqueItems?: boolean
  minProperties?: number
  maxProperties?: number
  'x-maxBytes'?: number
  'x-hostport'?: HostportRules
}

/** Finds what the service would refuse, without contacting it. `fault` completes the sentence '<field> …'. */
export function valueFaults(place: Place, schema: Checked, value: unknown): { place: Place; fault: string }[] {
  const wrong = faultOf(schema, value)
  const own = wrong ? [{ place, fault: wrong }] : []
  if (Array.isArray(value)) {
    const items = deref<Checked>(schema.items ?? {})
    return [...own, ...value.flatMap((each, index) => valueFaults([...place, index], items, each))]
  }
  if (!value || typeof value !== 'object') return own
  const values = typeof schema.additionalProperties === 'object' ? deref<Checked>(schema.additionalProperties) : {}
  const inner = Object.entries(value).flatMap(([name, each]) => {
    const property = schema.properties?.[name]
    const ofName =
      !property && schema.propertyNames ? valueFaults([...place, name], deref(schema.propertyNames), name) : []
    return [...ofName, ...valueFaults([...place, name], property ? deref<Checked>(property) : values, each)]
  })
  return [...own, ...inner]
}

/** Completes the sentence '<field> …'. */
function faultOf(schema: Checked, value: unknown): string | undefined {
  if (value === null || value === undefined) return undefined
  if (schema.enum && !schema.enum.includes(value)) return enumFault(schema.enum.map(String), String(value))
  if (typeof value === 'string')
    return value === '' && typesOf(schema).includes('null') ? undefined : textFaultOf(schema, value)
  if (typeof value === 'number') return numberFault(schema, value)
  if (Array.isArray(value)) return listFault(schema, value)
  return sizeFault(Object.keys(value).length, schema.minProperties, schema.maxProperties)
}

function enumFault(known: readonly string[], value: string): string {
  const meant = closest(value, known)
  return `must be one of ${known.join(', ')}${meant ? `; did you mean ${meant}` : ''}`
}

function textFaultOf(schema: Checked, text: string): string | undefined {
  const { pattern, 'x-maxBytes': maxBytes, 'x-hostport': hostport } = schema
  if (pattern && !new RegExp(pattern, 'u').test(text)) return schema['x-must'] ?? `must match ${pattern}`
  const tooLong = maxBytes === undefined ? undefined : textFault(text, maxBytes)
  if (tooLong) return tooLong
  if ('x-cidr' in schema) return parseCidr(text).fault
  if (hostport) return hostportFault(text, hostport)
  if ('x-domain' in schema) return domainFault(text)
  if ('x-moment' in schema && parseRfc3339(text) === undefined)
    return 'must be an RFC 3339 time, such as 2030-01-31T12:00:00Z'
  return undefined
}

function numberFault({ minimum, maximum, ...schema }: Checked, value: number): string | undefined {
  if (!Number.isInteger(value) && typesOf(schema).includes('integer')) return 'must be a whole number'
  if (minimum !== undefined && value < minimum) return `must be >= ${minimum}`
  return maximum !== undefined && value > maximum ? `must be <= ${maximum}` : undefined
}

function listFault({ minItems, maxItems, uniqueItems }: Checked, list: readonly unknown[]): string | undefined {
  const repeated = uniqueItems ? list.find((each, index) => list.indexOf(each) !== index) : undefined
  return repeated === undefined ? sizeFault(list.length, minItems, maxItems) : `must not repeat ${repeated}`
}

function sizeFault(size: number, least = 0, most = Number.POSITIVE_INFINITY): string | undefined {
  if (size < least) return `must have at least ${least} ${least === 1 ? 'entry' : 'entries'}`
  return size > most ? `must have at most ${most} entries` : undefined
}
