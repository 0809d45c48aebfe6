import { hash } from 'node:crypto'
import {
  createSigner,
  newSigningKey,
  type Signer,
  type TrustedKeys,
  trustedKeys,
} from '../../src/distribution/signature.ts'

export type Keys = { signer: Signer; trusted: TrustedKeys }

const { publicKey, privateKey } = newSigningKey()
const real: Keys = { signer: createSigner(publicKey, privateKey), trusted: trustedKeys([publicKey]) }

/** Only this file has the secret, so nothing else makes one. As long as a real one, which changes no history. */
const sign = (payload: string): string => hash('sha512', `secret of the simulation ${payload}`, 'base64')
const keyId = 'simulated key id'
const cheap: Keys = {
  signer: { keyId, sign },
  trusted: new Map([[keyId, (payload, signature) => signature === sign(payload)]]),
}

/** Ed25519 takes a third of the time, so only every 32nd history has it. */
export const keysOf = (seed: number): Keys => (seed % 32 === 0 ? real : cheap)
