/** One DER value, and the offset of the next. */
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

/** Parses consecutive elements, up to the first that does not fit. */
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

/** Encodes a value with tag and length. */
export function der(tag: number, ...parts: Buffer[]): Buffer {
  const content = Buffer.concat(parts)
  const { length } = content
  if (length < 0x80) return Buffer.concat([Buffer.from([tag, length]), content])
  const digits = length.toString(16)
  const bytes = Buffer.from(digits.padStart(digits.length + (digits.length % 2), '0'), 'hex')
  return Buffer.concat([Buffer.from([tag, 0x80 | bytes.length]), bytes, content])
}

/** The elements of tbsCertificate: version, serial number, names and so on. */
export function signedParts(certificate: Buffer): Element[] {
  const [whole] = elements(certificate)
  const [toBeSigned] = elements(whole?.content ?? nothing)
  return elements(toBeSigned?.content ?? nothing)
}

/**
 * The value of an extension, by the bytes of its object identifier. Follows the certificate's structure, so text that
 * merely resembles the extension is not mistaken for it.
 */
export function extensionOf(certificate: Buffer, id: string): Buffer | undefined {
  const [list] = elements(signedParts(certificate).find(({ tag }) => tag === extensions)?.content ?? nothing)
  for (const { tag, content } of elements(list?.content ?? nothing)) {
    const parts = tag === tags.sequence ? elements(content) : []
    if (parts[0]?.content.toString('hex') === id) return parts.find((part) => part.tag === tags.octetString)?.content
  }
  return undefined
}
