/**
 * Why a text cannot be stored; undefined if it can. PostgreSQL rejects NUL, and a lone surrogate would become U+FFFD.
 * Limits count UTF-8 bytes, the stored form.
 */
export function textFault(text: string, maxBytes: number): string | undefined {
  if (text.includes('\0')) return 'must not contain the NUL character'
  if (!text.isWellFormed()) return 'must be well-formed Unicode (it has a lone surrogate)'
  const bytes = Buffer.byteLength(text)
  if (bytes > maxBytes) return `must be at most ${maxBytes} bytes of UTF-8 (it has ${bytes})`
  return undefined
}

/** `""` and `null` both mean 'not set' and are stored as null. */
export const orNull = (text: string | null | undefined): string | null => text || null

/** Applies a PATCH: an omitted field keeps its value. */
export const patchedText = (current: string | null, sent: string | null | undefined): string | null =>
  sent === undefined ? current : orNull(sent)

/** For messages from other systems: printable ASCII only, so that they cannot imitate other output. */
export const plainText = (text: string, maxCharacters: number): string =>
  text.replaceAll(/[^\x20-\x7e]+/g, ' ').slice(0, maxCharacters)
