import { randomFillSync } from 'node:crypto'

/** What an identifier's prefix says it identifies. A new kind of resource begins with a row here. */
export const idPrefixes = {
  ac: 'account',
  usr: 'user',
  bot: 'bot',
  ak: 'API key',
  ipp: 'IP policy',
  ipr: 'IP policy rule',
  ipx: 'IP restriction',
  edgtcp: 'TCP edge',
  edghts: 'HTTPS edge',
  edghtsrt: 'HTTPS edge route',
  bkdst: 'static backend',
  bkdwd: 'weighted backend',
  bkdfo: 'failover backend',
  bkdhr: 'HTTP response backend',
  cert: 'TLS certificate',
  enk: 'edge node key',
  whd: 'webhook destination',
  ses: 'dashboard session',
  op: 'operation',
  idn: 'identity',
  ev: 'audit event',
} as const

/** 'an API key', 'a user': for sentences. */
export const withArticle = (noun: string): string =>
  `${/^(API|IP|HTTP|account|audit|edge|identity|operation)/.test(noun) ? 'an' : 'a'} ${noun}`
export const oneOf = (prefix: IdPrefix): string => withArticle(idPrefixes[prefix])
export const manyOf = (noun: string): string =>
  noun.endsWith('y') && !noun.endsWith('key') ? `${noun.slice(0, -1)}ies` : `${noun}s`

export type IdPrefix = keyof typeof idPrefixes
/** A TypeID: the prefix, `_`, and a UUIDv7 as 26 characters of base32. */
export type Id<P extends IdPrefix = IdPrefix> = `${P}_${string}`
/** The same identifier as PostgreSQL keeps it. */
export type Uuid = string & { readonly uuid: true }

export const idLength = (prefix: IdPrefix): number => prefix.length + 1 + 26

const alphabet = '0123456789abcdefghjkmnpqrstvwxyz'
const digitValue = new Map([...alphabet].map((character, value) => [character, value]))

// The first character holds the top 3 of 128 bits, so that it cannot exceed 7.
export const idPattern = (prefix: IdPrefix): string => `^${prefix}_[0-7][${alphabet}]{25}$`
const patterns = new Map(
  (Object.keys(idPrefixes) as IdPrefix[]).map((prefix) => [prefix, new RegExp(idPattern(prefix))]),
)

export function isId<P extends IdPrefix>(prefix: P, text: string): text is Id<P> {
  return patterns.get(prefix)?.test(text) ?? false
}

let lastMillisecond = 0
let sequence = 0

/**
 * A UUIDv7. Within one process each is greater than the one before, also within a millisecond and when the
 * clock steps back: lists are ordered by id, and what was created later must not sort as older.
 */
export function newUuid(now = Date.now()): Uuid {
  if (now > lastMillisecond) {
    lastMillisecond = now
    sequence = 0
  } else if (++sequence > 0xfff) {
    lastMillisecond++
    sequence = 0
  }
  const random = randomFillSync(new Uint8Array(8))
  random[0] = ((random[0] as number) & 0x3f) | 0x80
  const time = lastMillisecond.toString(16).padStart(12, '0')
  const tail = Buffer.from(random).toString('hex')
  return `${time.slice(0, 8)}-${time.slice(8)}-7${sequence.toString(16).padStart(3, '0')}-${tail.slice(0, 4)}-${tail.slice(4)}` as Uuid
}

/** The least UUIDv7 of a moment: where a range of ids by time begins. */
export function firstUuidOf(milliseconds: number): Uuid {
  const time = milliseconds.toString(16).padStart(12, '0')
  return `${time.slice(0, 8)}-${time.slice(8)}-7000-8000-000000000000` as Uuid
}

/** The moment that a UUIDv7 begins with. */
export const momentOfUuid = (uuid: string): number => Number.parseInt(uuid.slice(0, 8) + uuid.slice(9, 13), 16)

const uuidV7Pattern = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/
export const isUuidV7 = (text: string): text is Uuid => uuidV7Pattern.test(text)
export const newId = <P extends IdPrefix>(prefix: P): Id<P> => toId(prefix, newUuid())

// Both directions go digit by digit with small integers: BigInt made a page of 100 rows three times as slow.
export function toId<P extends IdPrefix>(prefix: P, uuid: Uuid): Id<P> {
  let text = ''
  let pending = 0
  let pendingBits = 2 // 26 × 5 is 130: two zero bits go before the 128
  for (const digit of uuid) {
    if (digit === '-') continue
    pending = ((pending << 4) | Number.parseInt(digit, 16)) & 0xff
    pendingBits += 4
    if (pendingBits < 5) continue
    pendingBits -= 5
    text += alphabet[(pending >> pendingBits) & 31]
  }
  return `${prefix}_${text}`
}

/** Only for a checked id: the characters are trusted to be in the alphabet. */
export function toUuid(id: Id): Uuid {
  let hex = ''
  let pending = 0
  let pendingBits = -2
  for (const character of id.slice(-26)) {
    pending = ((pending << 5) | (digitValue.get(character) ?? 0)) & 0x1ff
    pendingBits += 5
    while (pendingBits >= 4) {
      pendingBits -= 4
      hex += ((pending >> pendingBits) & 15).toString(16)
    }
  }
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}` as Uuid
}
