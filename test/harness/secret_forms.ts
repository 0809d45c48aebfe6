import { createPrivateKey } from 'node:crypto'

/** A text to look for, and in which form it would be the secret. */
export type Needle = { readonly form: string; readonly bytes: Buffer }

/**
 * Every form in which a private key could stand somewhere: the secret numbers raw, as hex, base64 and a list of bytes; and the
 * lines of its PEM, even when those were encoded once more.
 */
export function formsOf(pem: string): Needle[] {
  const { d = '', p = '', q = '' } = createPrivateKey(pem).export({ format: 'jwk' })
  const numbers = [d, p, q].filter(Boolean).map((text) => Buffer.from(text, 'base64url'))
  const lines = secretLines(pem, numbers)
  return [
    // Part of a long number is enough, and the same however much of it is there.
    ...numbers.flatMap((number) =>
      encodings('number', number.subarray(number.length / 2 - 12, number.length / 2 + 12)),
    ),
    ...lines.flatMap((line) => [{ form: 'PEM', bytes: Buffer.from(line) }, ...encodings('PEM', Buffer.from(line))]),
  ]
}

/** The certificate may contain the other lines too: they are the public half. */
function secretLines(pem: string, numbers: readonly Buffer[]): string[] {
  const body = pem.split('\n').filter((line) => line && !line.startsWith('-'))
  const der = Buffer.from(body.join(''), 'base64')
  const isSecret = (at: number) =>
    numbers.some((number) => at >= der.indexOf(number) && at < der.indexOf(number) + number.length)
  const secretBytes = (line: number) => Array.from({ length: 48 }, (_, at) => isSecret(line * 48 + at)).filter(Boolean)
  return body.filter((line, index) => line.length === 64 && secretBytes(index).length >= 12)
}

function encodings(what: string, bytes: Buffer): Needle[] {
  const hex = bytes.toString('hex')
  const texts = [
    ['hex', hex],
    ['hex in capitals', hex.toUpperCase()],
    ['list of bytes', [...bytes].join(',')],
    ...[0, 1, 2].flatMap((offset) => [
      ['base64', inside(bytes, offset, 'base64')],
      ['base64url', inside(bytes, offset, 'base64url')],
    ]),
  ]
  return [
    ...(what === 'number' ? [{ form: `raw ${what}`, bytes }] : []),
    ...texts.map(([form, text = '']) => ({ form: `${what} as ${form}`, bytes: Buffer.from(text) })),
  ]
}

/** Base64 of bytes that stand somewhere in others: without the letters that the bytes around them decide about. */
function inside(bytes: Buffer, offset: number, encoding: 'base64' | 'base64url'): string {
  const text = Buffer.concat([Buffer.alloc(offset), bytes])
    .toString(encoding)
    .replaceAll('=', '')
  return text.slice(Math.ceil((offset * 4) / 3) + 1, Math.floor(((offset + bytes.length) * 4) / 3) - 1)
}

/** The forms that are found, each once. Line ends, also escaped ones, do not hide anything. */
export function foundIn(haystack: Buffer | string, needles: readonly Needle[]): string[] {
  const bytes = Buffer.from(haystack)
  const joined = Buffer.from(bytes.toString('latin1').replaceAll(/\\+[nr]|[\s\0]/g, ''), 'latin1')
  return [...new Set([...foundInBytes(bytes, needles), ...foundInBytes(joined, needles)])]
}

/** As they are. Once over the bytes for all needles: there are hundreds, and a database is large. */
export function foundInBytes(bytes: Buffer, needles: readonly Needle[]): string[] {
  const byStart = Map.groupBy(needles, ({ bytes: needle }) => needle.readUInt16BE(0))
  const isStart = new Uint8Array(65_536)
  for (const start of byStart.keys()) isStart[start] = 1
  const found = new Set<string>()
  let start = bytes[0] ?? 0
  for (let at = 1; at < bytes.length; at++) {
    start = ((start << 8) | (bytes[at] ?? 0)) & 0xffff
    if (!isStart[start]) continue
    for (const { form, bytes: needle } of byStart.get(start) ?? [])
      if (bytes.subarray(at - 1, at - 1 + needle.length).equals(needle)) found.add(form)
  }
  return [...found]
}
