/** In the order of their bits, RFC 5280 section 4.2.1.3. */
const usages = [
  'digital-signature',
  'content-commitment',
  'key-encipherment',
  'data-encipherment',
  'key-agreement',
  'cert-sign',
  'crl-sign',
  'encipher-only',
  'decipher-only',
]

type Element = { readonly tag: number; readonly content: Buffer; readonly next: number }

const sequence = 0x30
const extensions = 0xa3
const octetString = 0x04
const bitString = 0x03
/** 2.5.29.15 as it is encoded. */
const keyUsageId = '551d0f'

/**
 * What the key may be used for, which Node does not tell. Reads only the certificate's own structure, so that a text in it
 * that happens to look like the extension is not taken for it. Empty when there is none.
 */
export function keyUsages(certificate: Buffer): string[] {
  const [whole] = elements(certificate)
  const [toBeSigned] = elements(whole?.content ?? Buffer.alloc(0))
  const list = elements(toBeSigned?.content ?? Buffer.alloc(0)).find(({ tag }) => tag === extensions)
  const [inner] = elements(list?.content ?? Buffer.alloc(0))
  for (const { tag, content } of elements(inner?.content ?? Buffer.alloc(0))) {
    const parts = tag === sequence ? elements(content) : []
    if (parts[0]?.content.toString('hex') !== keyUsageId) continue
    const value = parts.find((part) => part.tag === octetString)
    const bits = elements(value?.content ?? Buffer.alloc(0)).find((part) => part.tag === bitString)
    // The first byte says how many bits of the last one are not used, and they are 0.
    return usages.filter((_, bit) => ((bits?.content[1 + (bit >> 3)] ?? 0) >> (7 - (bit & 7))) & 1)
  }
  return []
}

/** The DER elements beside one another in some bytes, up to the first that does not fit. */
function elements(bytes: Buffer): Element[] {
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
