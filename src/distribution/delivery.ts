import {
  createCipheriv,
  createDecipheriv,
  createHmac,
  createPrivateKey,
  createPublicKey,
  diffieHellman,
  generateKeyPairSync,
  hash,
  hkdfSync,
  type KeyObject,
} from 'node:crypto'

/**
 * Transports private keys. One delivery key encrypts all of them, and is itself encrypted to each node's own public key:
 * a certificate stays one record for any number of nodes, and a node one record for any number of certificates. A reader
 * of NATS has neither key.
 *
 * A node's public key is written as `x25519:` and its 32 bytes in base64url.
 */
export type DeliveryKey = { readonly id: string; readonly bytes: Buffer }

const prefix = 'x25519:'
export const publicKeyPattern = '^x25519:[A-Za-z0-9_-]{43}$'
const cipher = 'aes-256-gcm'
const [keyBytes, nonceBytes, tagBytes] = [32, 12, 16]

export const deliveryKey = (bytes: Buffer): DeliveryKey => ({ id: hash('sha256', bytes, 'hex').slice(0, 16), bytes })

/** For people to compare: the first characters of the hash, as `gatehouse edge status` prints it too. */
export const nodeKeyFingerprint = (publicKey: string): string => hash('sha256', publicKey, 'hex').slice(0, 32)

export function newNodeKey(): { publicKey: string; privateKey: string } {
  const { publicKey, privateKey } = generateKeyPairSync('x25519')
  return {
    publicKey: publicKeyText(publicKey),
    privateKey: privateKey.export({ format: 'pem', type: 'pkcs8' }) as string,
  }
}
/** Throws if it is not a node's key. */
export function readNodeKey(pem: string): { publicKey: string; privateKey: KeyObject } {
  const privateKey = createPrivateKey(pem)
  if (privateKey.asymmetricKeyType !== 'x25519') throw new Error('it is not an X25519 key')
  return { publicKey: publicKeyText(createPublicKey(privateKey)), privateKey }
}

const publicKeyText = (key: KeyObject): string => prefix + key.export({ format: 'jwk' }).x
const publicKeyOf = (text: string): KeyObject =>
  createPublicKey({ key: { kty: 'OKP', crv: 'X25519', x: text.slice(prefix.length) }, format: 'jwk' })

/** Computed at both ends. The key is used only once, so a nonce of zeros is safe. */
const sharedKey = (secret: Buffer, ephemeral: string, node: string): Buffer =>
  Buffer.from(hkdfSync('sha256', secret, '', `gatehouse delivery key ${ephemeral} ${node}`, keyBytes))

/** Encrypts the delivery key for a single node. */
export function sealForNode({ id, bytes }: DeliveryKey, publicKey: string): string {
  const ephemeral = generateKeyPairSync('x25519')
  const text = publicKeyText(ephemeral.publicKey)
  const secret = diffieHellman({ privateKey: ephemeral.privateKey, publicKey: publicKeyOf(publicKey) })
  return `${text}.${encrypt(sharedKey(secret, text, publicKey), Buffer.alloc(nonceBytes), bytes, id).toString('base64')}`
}

/** Throws if it was sealed for another node. */
export function openForNode(
  id: string,
  sealed: string,
  node: { publicKey: string; privateKey: KeyObject },
): DeliveryKey {
  const [ephemeral = '', text = ''] = sealed.split('.')
  const secret = diffieHellman({ privateKey: node.privateKey, publicKey: publicKeyOf(ephemeral) })
  return { id, bytes: decrypt(sharedKey(secret, ephemeral, node.publicKey), Buffer.from(text, 'base64'), id) }
}

/**
 * Encrypts a private key for its record. Deterministic, because the publisher would otherwise see a change in each
 * comparison with the bucket. The nonce is derived from the plaintext, so no two texts share one.
 */
export function sealPrivateKey({ bytes }: DeliveryKey, context: string, pem: string): string {
  const nonceKey = Buffer.from(hkdfSync('sha256', bytes, '', 'gatehouse nonces', keyBytes))
  const nonce = createHmac('sha256', nonceKey).update(`${context}\0${pem}`).digest().subarray(0, nonceBytes)
  return encrypt(bytes, nonce, Buffer.from(pem), context).toString('base64')
}

/** Throws if it was sealed with another key or for another certificate, or was changed. */
export const openPrivateKey = ({ bytes }: DeliveryKey, context: string, sealed: string): string =>
  decrypt(bytes, Buffer.from(sealed, 'base64'), context).toString('utf8')

function encrypt(key: Buffer, nonce: Buffer, text: Buffer, context: string): Buffer {
  const sealing = createCipheriv(cipher, key, nonce)
  sealing.setAAD(Buffer.from(context))
  return Buffer.concat([nonce, sealing.update(text), sealing.final(), sealing.getAuthTag()])
}

function decrypt(key: Buffer, sealed: Buffer, context: string): Buffer {
  const opening = createDecipheriv(cipher, key, sealed.subarray(0, nonceBytes))
  opening.setAAD(Buffer.from(context))
  opening.setAuthTag(sealed.subarray(sealed.length - tagBytes))
  return Buffer.concat([opening.update(sealed.subarray(nonceBytes, sealed.length - tagBytes)), opening.final()])
}
