import { randomFillSync } from 'node:crypto'

/** Kinds of identifiers by prefix. A new kind of resource starts with a row here. */
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
  rd: 'reserved domain',
  chl: 'ACME challenge',
  ses: 'dashboard session',
  op: 'operation',
  idn: 'identity',
  ev: 'audit event',
  chs: 'change set',
  act: 'access test',
  alr: 'alert rule',
  alt: 'alert',
  ro: 'rollout',
} as const

/** 'an API key', 'a user': for sentences. */
export const withArticle = (noun: string): string =>
  `${/^(API|IP|HTTP|access|account|alert|audit|edge|identity|operation)/.test(noun) ? 'an' : 'a'} ${noun}`
export const oneOf = (prefix: IdPrefix): string => withArticle(idPrefixes[prefix])
export const manyOf = (noun: string): string =>
  noun.endsWith('y') && !noun.endsWith('key') ? `${noun.slice(0, -1)}ies` : `${noun}s`

export type IdPrefix = keyof typeof idPrefixes
/** A TypeID: the prefix, `_`, and a UUIDv7 as 26 characters of base32. */
export type Id<P extends IdPrefix = IdPrefix> = `${P}_${string}`
/** The same identifier as stored in PostgreSQL. */
export type Uuid = string & { readonly uuid: true }

export const idLength = (prefix: IdPrefix): number => prefix.length + 1 + 26

const alphabet = '0123456789abcdefghjkmnpqrstvwxyz'

// The first character holds the top 3 of 128 bits, so it cannot exceed 7.
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
 * A UUIDv7. Within a process, each is greater than the previous one, even within a millisecond or when the clock steps
 * back: lists are sorted by id, so newer resources must not sort as older.
 */
export function newUuid(now = Date.now()): Uuid {
  if (now > lastMillisecond) {
    lastMillisecond = now
    sequence = 0
  } else if (++sequence > 0xfff) {
    lastMillisecond++
    sequence = 0
  }
  const time = lastMillisecond.toString(16).padStart(12, '0')
  const tail = randomTail()
  return `${time.slice(0, 8)}-${time.slice(8)}-7${sequence.toString(16).padStart(3, '0')}-${tail.slice(0, 4)}-${tail.slice(4)}` as Uuid
}

// Requesting eight random bytes costs nearly as much as several thousand.
const pool = new Uint8Array(4096)
let used = pool.length

/** The last 64 bits: the variant (binary 10) and 62 random bits. */
function randomTail(): string {
  if (used === pool.length) {
    randomFillSync(pool)
    used = 0
  }
  pool[used] = ((pool[used] as number) & 0x3f) | 0x80
  let tail = ''
  for (const end = used + 8; used < end; used++) tail += hexOfByte[pool[used] as number]
  return tail
}
const hexOfByte = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, '0'))

/** The smallest UUIDv7 of a moment: the start of a range of ids by time. */
export function firstUuidOf(milliseconds: number): Uuid {
  const time = milliseconds.toString(16).padStart(12, '0')
  return `${time.slice(0, 8)}-${time.slice(8)}-7000-8000-000000000000` as Uuid
}

/** The timestamp in a UUIDv7. */
export const momentOfUuid = (uuid: string): number => Number.parseInt(uuid.slice(0, 8) + uuid.slice(9, 13), 16)

const uuidV7Pattern = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/
export const isUuidV7 = (text: string): text is Uuid => uuidV7Pattern.test(text)
export const newId = <P extends IdPrefix>(prefix: P): Id<P> => toId(prefix, newUuid())

// 26 characters of five bits are 130 bits, so two zero bits precede the 128. Two characters then map to two hexadecimal
// digits, and each further four characters to five digits, without remainder, so lookup tables suffice. Converting bit
// by bit took an eighth of a list's time.
const pairs = Array.from({ length: 1024 }, (_, bits) => `${alphabet[bits >> 5]}${alphabet[bits & 31]}`)
const valueOfHex = valuesByCode('0123456789abcdef')
const valueOfCharacter = valuesByCode(alphabet)
/** Positions of the digits in a UUID's text. */
const digitPlaces = [...'00000000-0000-0000-0000-000000000000'].flatMap((each, place) => (each === '0' ? place : []))

function valuesByCode(digits: string): Uint8Array {
  const values = new Uint8Array(128)
  for (const [value, digit] of [...digits].entries()) values[digit.charCodeAt(0)] = value
  return values
}

export function toId<P extends IdPrefix>(prefix: P, uuid: Uuid): Id<P> {
  const digit = (index: number): number => valueOfHex[uuid.charCodeAt(digitPlaces[index] as number)] as number
  let text = pairs[(digit(0) << 4) | digit(1)] as string
  for (let at = 2; at < 32; at += 5) {
    const bits = (digit(at) << 16) | (digit(at + 1) << 12) | (digit(at + 2) << 8) | (digit(at + 3) << 4) | digit(at + 4)
    text += `${pairs[bits >> 10]}${pairs[bits & 1023]}`
  }
  return `${prefix}_${text}`
}

/** For validated ids only: characters outside the alphabet are not detected. */
export function toUuid(id: Id): Uuid {
  const first = id.length - 26
  const value = (index: number): number => valueOfCharacter[id.charCodeAt(first + index)] as number
  let hex = hexOfByte[(value(0) << 5) | value(1)] as string
  for (let at = 2; at < 26; at += 4) {
    const bits = (value(at) << 15) | (value(at + 1) << 10) | (value(at + 2) << 5) | value(at + 3)
    hex += bits.toString(16).padStart(5, '0')
  }
  return uuidOfHex(hex)
}

/** Adds hyphens to 32 hexadecimal digits, the form in files and other programs. */
export const uuidOfHex = (hex: string): Uuid =>
  `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}` as Uuid
