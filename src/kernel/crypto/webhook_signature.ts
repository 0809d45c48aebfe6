import { createHmac, randomBytes } from 'node:crypto'

const prefix = 'whsec_'

/** Format of Standard Webhooks: prefix, and 32 random bytes in base64. */
export const newWebhookSecret = (): string => prefix + randomBytes(32).toString('base64')

/**
 * Headers of Standard Webhooks, with one signature per secret. Receivers accept any signature that they can verify, so
 * either secret works during a rotation.
 */
export function signedHeaders(
  secrets: readonly string[],
  { id, atMs, body }: { id: string; atMs: number; body: string },
): Record<string, string> {
  const timestamp = Math.floor(atMs / 1_000)
  const signatures = secrets.map((secret) => {
    const key = Buffer.from(secret.slice(prefix.length), 'base64')
    return `v1,${createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64')}`
  })
  return { 'webhook-id': id, 'webhook-timestamp': String(timestamp), 'webhook-signature': signatures.join(' ') }
}
