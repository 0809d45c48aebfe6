import { createPublicKey, type KeyObject, sign, X509Certificate } from 'node:crypto'
import { der, elements, extensionOf, signedParts, tags } from '../kernel/crypto/der.ts'

const sequence = (...parts: Buffer[]) => der(tags.sequence, ...parts)
const oid = (hex: string) => der(tags.oid, Buffer.from(hex, 'hex'))

const extensionRequest = oid('2a864886f70d01090e')
const subjectAltName = oid('551d11')
const algorithms = {
  ec: sequence(oid('2a8648ce3d040302')),
  rsa: sequence(oid('2a864886f70d01010b'), der(tags.null)),
}

/** A certificate request (RFC 2986) without a subject: authorities read the names from the extension. */
export function certificateRequest(key: KeyObject, names: readonly string[]): Buffer {
  const alternatives = sequence(...names.map((name) => der(0x82, Buffer.from(name, 'ascii'))))
  const extensions = sequence(sequence(subjectAltName, der(tags.octetString, alternatives)))
  const info = sequence(
    der(tags.integer, Buffer.from([0])),
    sequence(),
    createPublicKey(key).export({ type: 'spki', format: 'der' }),
    der(0xa0, sequence(extensionRequest, der(tags.set, extensions))),
  )
  const algorithm = key.asymmetricKeyType === 'ec' ? algorithms.ec : algorithms.rsa
  return sequence(info, algorithm, der(tags.bitString, Buffer.from([0]), sign('sha256', info, key)))
}

/** 2.5.29.35, authorityKeyIdentifier. */
const authorityKeyId = '551d23'

/**
 * The certificate's id with the authority (RFC 9773, 4.1); undefined if the certificate does not name its issuer's key.
 */
export function certificateIdOf(pem: string): string | undefined {
  const { raw } = new X509Certificate(pem)
  const [identifier] = elements(extensionOf(raw, authorityKeyId) ?? Buffer.alloc(0))
  const keyId = elements(identifier?.content ?? Buffer.alloc(0)).find(({ tag }) => tag === 0x80)
  const serial = signedParts(raw).find(({ tag }) => tag === tags.integer)
  return keyId && serial && `${keyId.content.toString('base64url')}.${serial.content.toString('base64url')}`
}
