import { elements, extensionOf, tags } from '../../kernel/crypto/der.ts'

/** In bit order, RFC 5280 section 4.2.1.3. */
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

/** 2.5.29.15, encoded. */
const keyUsageId = '551d0f'

/** The key usages, which Node does not expose. Empty if the certificate has no such extension. */
export function keyUsages(certificate: Buffer): string[] {
  const [bits] = elements(extensionOf(certificate, keyUsageId) ?? Buffer.alloc(0))
  if (bits?.tag !== tags.bitString) return []
  // The first byte counts the unused bits of the last one, which are 0.
  return usages.filter((_, bit) => ((bits.content[1 + (bit >> 3)] ?? 0) >> (7 - (bit & 7))) & 1)
}
