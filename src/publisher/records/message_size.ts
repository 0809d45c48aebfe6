/** Policies up to this size travel inside their record, which saves every node a second fetch. */
const maxInlineBytes = 32 * 1024
/** Space for the rest of a message: the record's key and signature, the subject and the headers. */
const envelopeBytes = 2_048

type Contents = { value: unknown; rules?: unknown; expiring?: unknown; blobs: readonly Buffer[] }

/**
 * A record holds up to three files of a policy in base64, which together fill up to three quarters of the largest
 * message.
 */
export const inlineBytes = (file: 'decisions' | 'rules' | 'ruleList', maxMessageBytes = Number.POSITIVE_INFINITY) =>
  Math.min(maxInlineBytes, Math.floor(maxMessageBytes / (file === 'ruleList' ? 16 : 4)))

/** Why NATS would reject a record or one of its pieces; undefined if it would not. */
export function sizeFault(
  { value, rules, expiring, blobs }: Contents,
  maxMessageBytes: number | undefined,
): string | undefined {
  if (maxMessageBytes === undefined || value === null) return undefined
  // The record is a JSON string inside the JSON of its envelope, where every quote takes two characters.
  const record = Buffer.byteLength(JSON.stringify(JSON.stringify([value, rules, expiring])))
  const largest = Math.max(record, ...blobs.map(({ length }) => length)) + envelopeBytes
  if (largest <= maxMessageBytes) return undefined
  return `it needs NATS messages of ${largest} bytes, and the server accepts ${maxMessageBytes}. Raise max_payload in the configuration of NATS`
}
