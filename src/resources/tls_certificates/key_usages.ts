import { elements, extensionOf, tags } from '../../kernel/crypto/der.ts'

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

/** 2.5.29.15 as it is encoded. */
const keyUsageId = '551d0f'

/** What the key may be used for, which Node does not tell. Empty when the certificate does not say. */
export function keyUsages(certificate: Buffer): string[] {
  const [bits] = elements(extensionOf(certificate, keyUsageId) ?? Buffer.alloc(0))
  if (bits?.tag !== tags.bitString) return []
  // The first byte says how many bits of the last one are not used, and they are 0.
  return usages.filter((_, bit) => ((bits.content[1 + (bit >> 3)] ?? 0) >> (7 - (bit & 7))) & 1)
}
