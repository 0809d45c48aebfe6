/**
 * Why a text cannot be kept, or undefined when it can. PostgreSQL refuses NUL, a lone surrogate would come back
 * as U+FFFD, and limits are bytes of UTF-8 because that is what is stored.
 */
export function textFault(text: string, maxBytes: number): string | undefined {
  if (text.includes('\0')) return 'must not contain the NUL character'
  if (!text.isWellFormed()) return 'must be well-formed Unicode (it has a lone surrogate)'
  const bytes = Buffer.byteLength(text)
  if (bytes > maxBytes) return `must be at most ${maxBytes} bytes of UTF-8 (it has ${bytes})`
  return undefined
}

/** `""` and `null` both mean 'not set', and are kept as null. */
export const orNull = (text: string | null | undefined): string | null => text || null

/** What a PATCH makes of a text: an omitted field stays as it is. */
export const patchedText = (current: string | null, sent: string | null | undefined): string | null =>
  sent === undefined ? current : orNull(sent)

/** For reasons that come from elsewhere: printable ASCII only, so that they cannot pretend to be anything else. */
export const plainText = (text: string, maxCharacters: number): string =>
  text.replaceAll(/[^\x20-\x7e]+/g, ' ').slice(0, maxCharacters)
