import type { NatsCredentials } from './nats_connection.ts'

/** Same format as the NATS tools use, so that an operator can use the file with them. */
export const credentialsText = ({ jwt, seed }: NatsCredentials): string => `\
-----BEGIN NATS USER JWT-----
${jwt}
------END NATS USER JWT------

-----BEGIN USER NKEY SEED-----
${seed}
------END USER NKEY SEED------
`

/** Throws if the text has no credentials. The message completes a sentence about the file without quoting it. */
export function readCredentials(text: string): NatsCredentials {
  const [jwt, seed] = [...text.matchAll(/^-+BEGIN [A-Z ]+-+\n(\S+)\n-+END [A-Z ]+-+$/gm)].map(([, inside]) => inside)
  if (!jwt || !seed?.startsWith('SU')) throw new Error('has no NATS user JWT with its private key')
  return { jwt, seed }
}

/** When the control plane signed it. Undefined if it is not a JWT. */
export function issuedAt({ jwt }: Pick<NatsCredentials, 'jwt'>): number | undefined {
  try {
    const { iat } = JSON.parse(Buffer.from(jwt.split('.')[1] ?? '', 'base64url').toString())
    return typeof iat === 'number' ? iat * 1_000 : undefined
  } catch {
    return undefined
  }
}
