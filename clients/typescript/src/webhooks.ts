import type { components } from './generated/openapi.ts'

export type WebhookEvent = {
  /** The operation, such as `api_keys.create`. */
  readonly type: string
  readonly timestamp: string
  readonly data: components['schemas']['AuditEvent']
}
/** A `Headers`, or the `headers` of a request in Node. */
type ReceivedHeaders = Headers | Readonly<Record<string, string | string[] | undefined>>

export class WebhookError extends Error {
  override readonly name = 'WebhookError'
}

/**
 * Resolves to the event if it was signed with this secret in the last five minutes; otherwise throws a WebhookError. The body
 * must be as it was received: parsing and writing it again would change it.
 */
export async function verifyWebhook(
  secret: string,
  headers: ReceivedHeaders,
  body: string,
  { toleranceSeconds = 300, now = Date.now() }: { toleranceSeconds?: number; now?: number } = {},
): Promise<WebhookEvent> {
  const header = (name: string): string => {
    const value = headers instanceof Headers ? headers.get(name) : headers[name]
    if (typeof value !== 'string') throw new WebhookError(`The header ${name} is missing.`)
    return value
  }
  const [id, timestamp, signatures] = [header('webhook-id'), header('webhook-timestamp'), header('webhook-signature')]
  if (!/^\d{1,12}$/.test(timestamp) || Math.abs(now / 1_000 - Number(timestamp)) > toleranceSeconds)
    throw new WebhookError('The timestamp is too old, or in the future.')
  const keyBytes = fromBase64(secret.replace(/^whsec_/, ''))
  if (!keyBytes?.length) throw new WebhookError('The secret is not one of a webhook destination.')
  const key = await crypto.subtle.importKey('raw', keyBytes, { name: 'HMAC', hash: 'SHA-256' }, false, ['verify'])
  const signed = new TextEncoder().encode(`${id}.${timestamp}.${body}`)
  for (const signature of signatures.split(' ')) {
    const bytes = signature.startsWith('v1,') ? fromBase64(signature.slice(3)) : undefined
    // Compares in constant time.
    if (bytes && (await crypto.subtle.verify('HMAC', key, bytes, signed))) return JSON.parse(body)
  }
  throw new WebhookError('No signature is by this secret.')
}

function fromBase64(text: string): Uint8Array<ArrayBuffer> | undefined {
  try {
    return Uint8Array.from(atob(text), (character) => character.charCodeAt(0))
  } catch {
    return undefined
  }
}
