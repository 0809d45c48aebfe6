import { hash, randomBytes } from 'node:crypto'
import { crc32 } from 'node:zlib'

// A prefix that secret scanners can look for, 256 random bits, and a checksum that finds a mistyped one without a look-up.
const prefixes = { token: 'gatehouse_', session: 'gatehouse_session_' }
type Kind = keyof typeof prefixes
const digits = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const secretLength = 43
const checksumLength = 6
const shapeOf = (kind: Kind) => new RegExp(`^${prefixes[kind]}[0-9A-Za-z]{${secretLength + checksumLength}}$`)
const shapes = { token: shapeOf('token'), session: shapeOf('session') }

function base62(value: bigint, length: number): string {
  let text = ''
  for (let rest = value; text.length < length; rest /= 62n) text = digits[Number(rest % 62n)] + text
  return text
}

const checksum = (text: string): string => base62(BigInt(crc32(text)), checksumLength)

function newSecret(kind: Kind): string {
  const secret = prefixes[kind] + base62(BigInt(`0x${randomBytes(32).toString('hex')}`), secretLength)
  return secret + checksum(secret)
}

const isWellFormed = (kind: Kind, text: string): boolean =>
  shapes[kind].test(text) && text.slice(-checksumLength) === checksum(text.slice(0, -checksumLength))

export const newToken = (): string => newSecret('token')
/** What the cookie of a dashboard session holds. */
export const newSessionSecret = (): string => newSecret('session')

/** Whether it can be a token at all. Most mistyped and all made-up ones end here, before the database is asked. */
export const isWellFormedToken = (text: string): boolean => isWellFormed('token', text)
export const isWellFormedSessionSecret = (text: string): boolean => isWellFormed('session', text)

// A plain hash is enough for a secret of 256 random bits: there is nothing to guess (ASVS 5.0, 6.5.2).
export const hashToken = (token: string): Buffer => hash('sha256', token, 'buffer')
