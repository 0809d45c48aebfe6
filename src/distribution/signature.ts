import { createPrivateKey, createPublicKey, generateKeyPairSync, hash, type KeyObject, sign, verify } from 'node:crypto'
import type { Signed } from './live_set.ts'
import type { EdgeRecord } from './records.ts'
import { isGeneration, recordFault } from './validate.ts'

/**
 * The control plane signs records, so an intruder in NATS can delay a change but not create one. A public key is written
 * as `ed25519:` and its 32 bytes in base64url, and identified by the first characters of their hash.
 */
export type Signer = { readonly keyId: string; readonly sign: (payload: string) => string }
/** True if the key made this signature of the payload. */
type Verifier = (payload: string, signature: string) => boolean
export type TrustedKeys = ReadonlyMap<string, Verifier>

const prefix = 'ed25519:'

export const publicKeyText = (publicKey: KeyObject): string => prefix + publicKey.export({ format: 'jwk' }).x

export function newSigningKey(): { publicKey: string; privateKey: string } {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519')
  return {
    publicKey: publicKeyText(publicKey),
    privateKey: privateKey.export({ format: 'pem', type: 'pkcs8' }) as string,
  }
}

export const keyIdOf = (publicKey: string): string => hash('sha256', publicKey, 'hex').slice(0, 16)

export function createSigner(publicKey: string, privateKeyPem: string): Signer {
  const key = createPrivateKey(privateKeyPem)
  return { keyId: keyIdOf(publicKey), sign: (payload) => sign(null, Buffer.from(payload), key).toString('base64') }
}

/** Throws for anything but a list of public keys: an agent must not start with fewer keys than its operator intended. */
export function trustedKeys(texts: readonly string[]): TrustedKeys {
  return new Map(
    texts.map((text) => {
      if (!/^ed25519:[A-Za-z0-9_-]{43}$/.test(text))
        throw new Error(`${JSON.stringify(text)} is not a public key of the form ed25519:…`)
      const key = createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x: text.slice(prefix.length) }, format: 'jwk' })
      return [
        keyIdOf(text),
        (payload, signature) => verify(null, Buffer.from(payload), key, Buffer.from(signature, 'base64')),
      ]
    }),
  )
}

/** The payload is the exact signed text, so JSON formatting does not matter. */
type Envelope = { payload: string; key: string; signature: string }

export function seal(payload: object, signer: Signer): string {
  const text = JSON.stringify(payload)
  return JSON.stringify({ payload: text, key: signer.keyId, signature: signer.sign(text) } satisfies Envelope)
}

/** The signed payload, or why it is not trusted. */
export function open(envelope: string, keys: TrustedKeys): { payload: unknown } | { fault: string } {
  let parsed: Partial<Envelope>
  try {
    parsed = JSON.parse(envelope) ?? {}
  } catch {
    return { fault: 'is not JSON' }
  }
  const { payload, key: keyId, signature } = parsed
  if (typeof payload !== 'string' || typeof keyId !== 'string' || typeof signature !== 'string')
    return { fault: 'is not signed' }
  const isSigned = keys.get(keyId)
  if (!isSigned) return { fault: `is signed by a key that is not trusted here (${keyId.slice(0, 16)})` }
  if (!isSigned(payload, signature)) return { fault: 'has a wrong signature' }
  try {
    return { payload: JSON.parse(payload) }
  } catch {
    return { fault: 'holds no JSON' }
  }
}

/** Why an envelope is not trusted, as far as keys and signature go. `untrusted`: none of these keys can verify it. */
export function sealFault(envelope: string, keys: TrustedKeys): 'untrusted' | 'forged' | undefined {
  const opened = open(envelope, keys)
  if (!('fault' in opened)) return undefined
  return /^is signed by a key that is not trusted/.test(opened.fault) ? 'untrusted' : 'forged'
}

export const digestOf = (records: readonly string[]): string => hash('sha256', JSON.stringify(records), 'hex')

/**
 * `signed` is set if the control plane has signed the record: this generation then exists, although it cannot be
 * applied.
 */
export type RecordFault = { fault: string; signed?: Signed }

/** Opens a record, which must be signed, well-formed and stored under its own key. */
export function openRecord(envelope: string, keys: TrustedKeys, expectedKey?: string): EdgeRecord | RecordFault {
  const opened = open(envelope, keys)
  if ('fault' in opened) return opened
  const fault = recordFault(opened.payload)
  if (fault) {
    const { key, generation, value } = (opened.payload ?? {}) as {
      key?: unknown
      generation?: unknown
      value?: unknown
    }
    const isOwn = typeof key === 'string' && (expectedKey === undefined || key === expectedKey)
    return isOwn && isGeneration(generation)
      ? { fault, signed: { key, generation, isLive: value !== null } }
      : { fault }
  }
  const record = opened.payload as EdgeRecord
  if (expectedKey !== undefined && record.key !== expectedKey)
    return { fault: `stands under the key of another record (${record.key})` }
  return record
}
