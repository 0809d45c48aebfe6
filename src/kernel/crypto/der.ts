/** One value in DER, and where the next one begins. */
export type Element = { readonly tag: number; readonly content: Buffer; readonly next: number }

export const tags = {
  integer: 0x02,
  bitString: 0x03,
  octetString: 0x04,
  null: 0x05,
  oid: 0x06,
  sequence: 0x30,
  set: 0x31,
}
const extensions = 0xa3
const nothing = Buffer.alloc(0)

/** The elements beside one another in some bytes, up to the first that does not fit. */
export function elements(bytes: Buffer): Element[] {
  const found: Element[] = []
  for (let at = 0; at + 2 <= bytes.length; ) {
    const element = elementAt(bytes, at)
    if (!element) break
    found.push(element)
    at = element.next
  }
  return found
}

function elementAt(bytes: Buffer, at: number): Element | undefined {
  const first = bytes[at + 1] ?? 0
  const lengthBytes = first < 0x80 ? 0 : first & 0x7f
  if (lengthBytes > 4 || at + 2 + lengthBytes > bytes.length) return undefined
  const length = lengthBytes === 0 ? first : bytes.readUIntBE(at + 2, lengthBytes)
  const start = at + 2 + lengthBytes
  if (start + length > bytes.length) return undefined
  return { tag: bytes[at] ?? 0, content: bytes.subarray(start, start + length), next: start + length }
}

/** A value with its tag and length. */
export function der(tag: number, ...parts: Buffer[]): Buffer {
  const content = Buffer.concat(parts)
  const { length } = content
  if (length < 0x80) return Buffer.concat([Buffer.from([tag, length]), content])
  const digits = length.toString(16)
  const bytes = Buffer.from(digits.padStart(digits.length + (digits.length % 2), '0'), 'hex')
  return Buffer.concat([Buffer.from([tag, 0x80 | bytes.length]), bytes, content])
}

/** What an issuer signs of a certificate: its version, serial number, names and so on. */
export function signedParts(certificate: Buffer): Element[] {
  const [whole] = elements(certificate)
  const [toBeSigned] = elements(whole?.content ?? nothing)
  return elements(toBeSigned?.content ?? nothing)
}

/**
 * The value of an extension, by the bytes of its object identifier. Reads only the certificate's own structure, so that a
 * text in it that happens to look like the extension is not taken for it.
 */
export function extensionOf(certificate: Buffer, id: string): Buffer | undefined {
  const [list] = elements(signedParts(certificate).find(({ tag }) => tag === extensions)?.content ?? nothing)
  for (const { tag, content } of elements(list?.content ?? nothing)) {
    const parts = tag === tags.sequence ? elements(content) : []
    if (parts[0]?.content.toString('hex') === id) return parts.find((part) => part.tag === tags.octetString)?.content
  }
  return undefined
}
