import { createCipheriv, createDecipheriv, hash, hkdfSync, randomBytes } from 'node:crypto'
import { UnreadableSecret } from './unreadable_secret.ts'

const cipher = 'aes-256-gcm'
const keyBytes = 32
const nonceBytes = 12
const tagBytes = 16

export type SealedSecret = { readonly keyId: string; readonly sealed: Buffer }

/**
 * Encrypts secrets before they are stored. The context names the purpose and the owner, so a value sealed for one row
 * cannot be opened in another. The first key seals and all keys open, so a rotation causes no outage.
 */
export type SecretsBox = {
  readonly keyId: string
  readonly keyIds: readonly string[]
  readonly seal: (secret: string, context: string) => SealedSecret
  /** Throws UnreadableSecret. */
  readonly open: (sealed: SealedSecret, context: string) => string
  /** Derives a key from the current one; the current key cannot be recovered from it. */
  readonly derive: (purpose: string) => Buffer
}

export const secretsKeyId = (key: Buffer): string => hash('sha256', key, 'hex').slice(0, 16)

/** One key per line, 32 bytes in base64. Skips empty lines and lines that begin with #. Throws for anything else. */
export function readSecretsKeys(text: string): Buffer[] {
  const lines = text.split(/\r?\n/).map((line) => line.trim())
  const keys = lines.flatMap((line, index) => {
    if (line === '' || line.startsWith('#')) return []
    const key = Buffer.from(line, 'base64')
    // The message does not repeat the line, which is a secret.
    if (!/^[A-Za-z0-9+/]{43}=$/.test(line) || key.length !== keyBytes)
      throw new Error(`line ${index + 1} is not a key: 32 random bytes in base64, as 'openssl rand -base64 32' prints`)
    return [key]
  })
  if (keys.length === 0) throw new Error('it has no key. Write one into it: openssl rand -base64 32')
  return keys
}

export function createSecretsBox(keys: readonly Buffer[]): SecretsBox {
  const known = new Map(keys.map((key) => [secretsKeyId(key), key]))
  const [current] = keys
  if (!current) throw new Error('a box needs a key')
  const keyId = secretsKeyId(current)
  return {
    keyId,
    keyIds: [...known.keys()],
    seal(secret, context) {
      const nonce = randomBytes(nonceBytes)
      const sealing = createCipheriv(cipher, current, nonce)
      sealing.setAAD(Buffer.from(context))
      return {
        keyId,
        sealed: Buffer.concat([nonce, sealing.update(secret, 'utf8'), sealing.final(), sealing.getAuthTag()]),
      }
    },
    open({ keyId: sealedWith, sealed }, context) {
      const key = known.get(sealedWith)
      if (!key)
        throw new UnreadableSecret(
          `it is encrypted with the key ${sealedWith}, which is not in GATEHOUSE_SECRETS_KEY_FILE. Put that key back as a further line`,
        )
      try {
        const opening = createDecipheriv(cipher, key, sealed.subarray(0, nonceBytes))
        opening.setAAD(Buffer.from(context))
        opening.setAuthTag(sealed.subarray(sealed.length - tagBytes))
        const text = opening.update(sealed.subarray(nonceBytes, sealed.length - tagBytes))
        return Buffer.concat([text, opening.final()]).toString('utf8')
      } catch {
        throw new UnreadableSecret('it was changed, or moved here from another row')
      }
    },
    derive: (purpose) => Buffer.from(hkdfSync('sha256', current, '', `gatehouse ${purpose}`, keyBytes)),
  }
}
