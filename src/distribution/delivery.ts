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
 * How private keys travel. All of them are encrypted with one delivery key, and that key is encrypted to each node's own
 * public key: a certificate stays one record with any number of nodes, and a node one record with any number of
 * certificates. A reader of NATS has neither key.
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
/** Throws when it is not a key of a node. */
export function readNodeKey(pem: string): { publicKey: string; privateKey: KeyObject } {
  const privateKey = createPrivateKey(pem)
  if (privateKey.asymmetricKeyType !== 'x25519') throw new Error('it is not an X25519 key')
  return { publicKey: publicKeyText(createPublicKey(privateKey)), privateKey }
}

const publicKeyText = (key: KeyObject): string => prefix + key.export({ format: 'jwk' }).x
const publicKeyOf = (text: string): KeyObject =>
  createPublicKey({ key: { kty: 'OKP', crv: 'X25519', x: text.slice(prefix.length) }, format: 'jwk' })

/** What both ends compute. The key is used once, so that its nonce may be all zeros. */
const sharedKey = (secret: Buffer, ephemeral: string, node: string): Buffer =>
  Buffer.from(hkdfSync('sha256', secret, '', `gatehouse delivery key ${ephemeral} ${node}`, keyBytes))

/** The delivery key, for one node only. */
export function sealForNode({ id, bytes }: DeliveryKey, publicKey: string): string {
  const ephemeral = generateKeyPairSync('x25519')
  const text = publicKeyText(ephemeral.publicKey)
  const secret = diffieHellman({ privateKey: ephemeral.privateKey, publicKey: publicKeyOf(publicKey) })
  return `${text}.${encrypt(sharedKey(secret, text, publicKey), Buffer.alloc(nonceBytes), bytes, id).toString('base64')}`
}

/** Throws when it was sealed for another node. */
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
 * A private key as its record has it. The same key gives the same text, or the publisher would take each comparison with
 * the bucket for a change: the nonce follows from what is encrypted, so that no two texts share one.
 */
export function sealPrivateKey({ bytes }: DeliveryKey, context: string, pem: string): string {
  const nonceKey = Buffer.from(hkdfSync('sha256', bytes, '', 'gatehouse nonces', keyBytes))
  const nonce = createHmac('sha256', nonceKey).update(`${context}\0${pem}`).digest().subarray(0, nonceBytes)
  return encrypt(bytes, nonce, Buffer.from(pem), context).toString('base64')
}

/** Throws when it was sealed with another key, for another certificate, or changed. */
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
