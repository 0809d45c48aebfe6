import { headersFault } from '../kernel/headers.ts'
import { parseHostport } from '../kernel/hostport.ts'
import { type IdPrefix, isId } from '../kernel/ids.ts'
import type { EdgeRecord, RecordKey, RecordKind } from './records.ts'

/**
 * Why a record must not be applied, or undefined. The limits are those of the API: whatever gets here in another way, by a
 * defect or by an attack, is refused, and the last good state stays.
 */
export function recordFault(record: unknown): string | undefined {
  if (!isObject(record)) return 'is not an object'
  const { key, generation, value } = record as Partial<EdgeRecord>
  if (typeof key !== 'string') return 'has no key'
  const [kind = '', id = '', ...more] = key.split('.')
  const checks = kinds[kind as RecordKind]
  if (!Object.hasOwn(kinds, kind) || !checks || more.length > 0 || !isId(checks.prefix, id))
    return `has an unknown key ${JSON.stringify(key).slice(0, 80)}`
  if (!Number.isSafeInteger(generation) || (generation as number) < 1) return 'has no generation'
  if (value === null) return undefined
  if (!isObject(value)) return 'has no value'
  for (const field of Object.keys(value)) {
    if (!Object.hasOwn(checks.fields, field)) return `has an unknown field ${JSON.stringify(field).slice(0, 80)}`
  }
  for (const [field, check] of Object.entries(checks.fields)) {
    if (!check((value as Record<string, unknown>)[field])) return `has an invalid ${field}`
  }
  return checks.whole?.(value)
}

type Check = (value: unknown) => boolean

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
const isText = (value: unknown): value is string => typeof value === 'string'
const id =
  (prefix: IdPrefix): Check =>
  (value) =>
    isText(value) && isId(prefix, value)
const orNull =
  (check: Check): Check =>
  (value) =>
    value === null || check(value)
const optional =
  (check: Check): Check =>
  (value) =>
    value === undefined || check(value)
const listOf =
  (check: Check, most: number, least = 0): Check =>
  (value) =>
    Array.isArray(value) && value.length >= least && value.length <= most && value.every(check)
const hostport =
  (wildcard: boolean): Check =>
  (value) => {
    const parsed = isText(value) ? parseHostport(value, { wildcard }) : ''
    // Only the canonical spelling: what the API accepts in another it stores in this one.
    return typeof parsed !== 'string' && `${parsed.host}:${parsed.port}` === value
  }
const hex64: Check = (value) => isText(value) && /^[0-9a-f]{64}$/.test(value)
const policies = listOf(id('ipp'), 100, 1)
const isPort: Check = (value) => Number.isInteger(value) && (value as number) >= 1 && (value as number) <= 65_535

const headers: Check = (value) => {
  if (!isObject(value)) return false
  const { add, remove } = value
  const pairs = listOf((pair) => Array.isArray(pair) && pair.length === 2 && pair.every(isText), 50)
  if (!pairs(add) || !listOf(isText, 50)(remove) || Object.keys(value).length !== 2) return false
  const names = (add as [string, string][]).map(([name]) => name)
  return (
    new Set(names).size === names.length &&
    !headersFault({ add: Object.fromEntries(add as [string, string][]), remove: remove as string[] })
  )
}

const sets = listOf(
  (set) =>
    isObject(set) &&
    id('ipx')(set.id) &&
    typeof set.enforced === 'boolean' &&
    policies(set.policies) &&
    Object.keys(set).length === 3,
  1_000,
)

const kinds: Record<
  RecordKind,
  { prefix: IdPrefix; fields: Record<string, Check>; whole?: (value: Record<string, unknown>) => string | undefined }
> = {
  tcp: {
    prefix: 'edgtcp',
    fields: {
      account: id('ac'),
      hostports: listOf(hostport(false), 100),
      backend: orNull(id('bkdst')),
      policies: orNull(policies),
    },
  },
  https: { prefix: 'edghts', fields: { hostports: listOf(hostport(true), 100) } },
  route: {
    prefix: 'edghtsrt',
    fields: {
      account: id('ac'),
      edge: id('edghts'),
      match_type: (value) => value === 'exact_path' || value === 'path_prefix',
      match: (value) => isText(value) && value.length <= 1024 && /^\/[A-Za-z0-9\-._~!$&'()*+,;=:@%/]*$/.test(value),
      backend: orNull(id('bkdst')),
      policies: orNull(policies),
      headers: orNull(headers),
      encoded_slashes: optional((value) => value === 'allow'),
      websocket: optional((value) => value === false),
    },
  },
  backend: {
    prefix: 'bkdst',
    fields: {
      host: (value) => isText(value) && hostport(false)(`${value}:1`),
      port: isPort,
      tls: (value) => typeof value === 'boolean',
      protocol: optional((value) => value === 'http2'),
    },
  },
  policy: {
    prefix: 'ipp',
    fields: {
      hash: hex64,
      bytes: (value) => Number.isInteger(value) && (value as number) >= 12 && (value as number) <= 64 * 1024 * 1024,
      inline: optional((value) => isText(value) && /^[A-Za-z0-9+/]*={0,2}$/.test(value) && value.length <= 128 * 1024),
      chunks: optional(listOf(hex64, 10_000, 1)),
    },
    whole: ({ inline, chunks }) =>
      (inline === undefined) === (chunks === undefined) ? 'has not exactly one of inline and chunks' : undefined,
  },
  restrictions: { prefix: 'ac', fields: { sets } },
}

export const isRecordKey = (text: string): text is RecordKey =>
  /^(tcp|https|route|backend|policy|restrictions)\.[a-z]+_[0-9a-z]{26}$/.test(text)
