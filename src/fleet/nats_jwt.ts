import { hash } from 'node:crypto'
import { nkeys } from '@nats-io/transport-node'

/** Both halves as text. The first letter gives the type: O operator, A account, U user. A seed has an S before it. */
export type NatsKey = { readonly publicKey: string; readonly seed: string }

type Kind = 'operator' | 'account' | 'user'
const makers = { operator: nkeys.createOperator, account: nkeys.createAccount, user: nkeys.createUser }

export function newNatsKey(kind: Kind): NatsKey {
  const pair = makers[kind]()
  return { publicKey: pair.getPublicKey(), seed: Buffer.from(pair.getSeed()).toString() }
}

/** Throws if it is not a seed. */
export const natsKeyOf = (seed: string): NatsKey => ({
  publicKey: nkeys.fromSeed(seedBytes(seed)).getPublicKey(),
  seed,
})

export const seedBytes = (seed: string): Uint8Array => Buffer.from(seed)

/** True for a user's public key with a valid checksum. */
export function isUserKey(text: string): boolean {
  try {
    nkeys.fromPublic(text)
    return text.startsWith('U')
  } catch {
    return false
  }
}

type Claim = {
  readonly subject: string
  readonly name: string
  readonly nats: Readonly<Record<string, unknown>>
  readonly now: number
  readonly lifeMs?: number
}

/** Same format as nats-server reads (ADR-14 of NATS). Times are in whole seconds. */
export function signNatsJwt(signerSeed: string, { subject, name, nats, now, lifeMs }: Claim): string {
  const signer = nkeys.fromSeed(seedBytes(signerSeed))
  const claim = {
    iss: signer.getPublicKey(),
    sub: subject,
    name,
    iat: Math.floor(now / 1_000),
    ...(lifeMs && { exp: Math.floor((now + lifeMs) / 1_000) }),
    nats: { ...nats, version: 2 },
  }
  const jti = hash('sha256', JSON.stringify(claim), 'base64url')
  const body = `${encoded({ typ: 'JWT', alg: 'ed25519-nkey' })}.${encoded({ ...claim, jti })}`
  return `${body}.${Buffer.from(signer.sign(Buffer.from(body))).toString('base64url')}`
}

const encoded = (value: object): string => Buffer.from(JSON.stringify(value)).toString('base64url')
