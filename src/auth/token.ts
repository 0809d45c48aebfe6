import { hash, randomBytes } from 'node:crypto'
import { crc32 } from 'node:zlib'

// A prefix that secret scanners can look for, 256 random bits, and a checksum that finds a mistyped token without a look-up.
const prefix = 'gatehouse_'
const digits = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const secretLength = 43
const checksumLength = 6
const shape = new RegExp(`^${prefix}[0-9A-Za-z]{${secretLength + checksumLength}}$`)

function base62(value: bigint, length: number): string {
  let text = ''
  for (let rest = value; text.length < length; rest /= 62n) text = digits[Number(rest % 62n)] + text
  return text
}

const checksum = (text: string): string => base62(BigInt(crc32(text)), checksumLength)

export function newToken(): string {
  const secret = prefix + base62(BigInt(`0x${randomBytes(32).toString('hex')}`), secretLength)
  return secret + checksum(secret)
}

/** Whether it can be a token at all. Most mistyped and all made-up ones end here, before the database is asked. */
export function isWellFormedToken(text: string): boolean {
  return shape.test(text) && text.slice(-checksumLength) === checksum(text.slice(0, -checksumLength))
}

// A plain hash is enough for a secret of 256 random bits: there is nothing to guess (ASVS 5.0, 6.5.2).
export const hashToken = (token: string): Buffer => hash('sha256', token, 'buffer')
