import { hash, randomFillSync } from 'node:crypto'
import { crc32 } from 'node:zlib'

// A prefix for secret scanners, 256 random bits, and a checksum that detects typos without a look-up.
const prefixes = { token: 'gatehouse_', session: 'gatehouse_session_', invitation: 'gatehouse_invitation_' }
type Kind = keyof typeof prefixes
const digits = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const secretLength = 43
const checksumLength = 6
const shapeOf = (kind: Kind) => new RegExp(`^${prefixes[kind]}[0-9A-Za-z]{${secretLength + checksumLength}}$`)
const shapes = { token: shapeOf('token'), session: shapeOf('session'), invitation: shapeOf('invitation') }

function base62(value: number, length: number): string {
  let text = ''
  for (let rest = value; text.length < length; rest = Math.floor(rest / 62)) text = digits[rest % 62] + text
  return text
}

const checksum = (text: string): string => base62(crc32(text), checksumLength)

/** Divides off as many digits as fit into 32 bits, which takes a quarter of the time of single digits with a BigInt. */
const digitsAtOnce = 5
const divisor = 62 ** digitsAtOnce

/** Base 62 of a big-endian number in 16-bit words. Leaves the words zeroed. */
export function base62OfWords(words: Uint16Array, length: number): string {
  let text = ''
  while (text.length < length) {
    let rest = 0
    for (let at = 0; at < words.length; at++) {
      const part = rest * 0x10000 + (words[at] as number)
      words[at] = Math.floor(part / divisor)
      rest = part % divisor
    }
    text = base62(rest, Math.min(digitsAtOnce, length - text.length)) + text
  }
  return text
}

// Requesting 32 random bytes costs nearly as much as several thousand.
const wordsOfSecret = 16
const pool = new Uint16Array(64 * wordsOfSecret)
let used = pool.length

function newSecret(kind: Kind): string {
  if (used === pool.length) {
    randomFillSync(pool)
    used = 0
  }
  const words = pool.subarray(used, used + wordsOfSecret)
  used += wordsOfSecret
  const secret = prefixes[kind] + base62OfWords(words, secretLength)
  return secret + checksum(secret)
}

const isWellFormed = (kind: Kind, text: string): boolean =>
  shapes[kind].test(text) && text.slice(-checksumLength) === checksum(text.slice(0, -checksumLength))

export const newToken = (): string => newSecret('token')
/** The secret in the cookie of a dashboard session. */
export const newSessionSecret = (): string => newSecret('session')
/** The secret at the end of an invitation link. */
export const newInvitationSecret = (): string => newSecret('invitation')

/** Whether the text can be a token. Most typos and all made-up tokens fail here, before the database is asked. */
export const isWellFormedToken = (text: string): boolean => isWellFormed('token', text)
export const isWellFormedSessionSecret = (text: string): boolean => isWellFormed('session', text)
export const isWellFormedInvitationSecret = (text: string): boolean => isWellFormed('invitation', text)

// A plain hash suffices for 256 random bits, which cannot be guessed (ASVS 5.0, 6.5.2).
export const hashToken = (token: string): Buffer => hash('sha256', token, 'buffer')
