import { apiPrefix, channelsOf, linkedRenewalSubject } from '../distribution/channels.ts'
import type { NatsCredentials } from '../distribution/nats_connection.ts'
import { maxWaves } from '../kernel/edge/cells.ts'
import {
  accountJwt,
  allUser,
  bucketCalls,
  directGets,
  imported,
  type NatsOperator,
  ownUser,
  unlimited,
} from './nats_accounts.ts'
import { newNatsKey, signNatsJwt } from './nats_jwt.ts'

/** A cell whose nodes may connect to leaf servers. */
export type LinkedCell = { readonly name: string; readonly account: string }

/** The subjects that nodes of a cell may request, send on and receive, under any name and in any wave. */
function subjectsOf(cell: string) {
  const waves = Array.from({ length: maxWaves }, (_, wave) => channelsOf(cell, wave))
  const { reports, requests, tail, watches } = channelsOf(cell)
  return {
    calls: waves.flatMap(bucketCalls),
    sent: [...[reports, requests, tail].map((subjectOf) => subjectOf('*')), linkedRenewalSubject(cell, '*')],
    heard: [...waves.map(({ batches }) => batches), watches],
  }
}

/**
 * A leaf server links one account, but each node has its own. The nodes of such a cell therefore import from this
 * account, which imports the permitted subjects of its own cell from CONTROL. A server with the link can do what its
 * nodes can.
 */
export function cellAccountJwt(operator: NatsOperator, { name, account }: LinkedCell, now: number): string {
  const control = operator.keys.control.publicKey
  const { calls, sent, heard } = subjectsOf(name)
  const service = (subject: string) => ({ name: subject, subject, type: 'service' })
  const claims = {
    limits: unlimited,
    imports: [
      ...calls.map((call) => imported('service', control, `$JS.API.${call}`, `${apiPrefix}.${call}`)),
      ...sent.map((subject) => imported('service', control, subject)),
      ...heard.map((subject) => imported('stream', control, subject)),
    ],
    exports: [
      ...['STREAM.INFO.*', 'STREAM.MSG.GET.*'].map((call) => service(`${apiPrefix}.${call}`)),
      directGets(`${apiPrefix}.DIRECT.GET.*`),
      ...sent.map(service),
      ...heard.map((subject) => ({ name: subject, subject, type: 'stream' })),
    ],
    signing_keys: [operator.keys.nodes.publicKey],
  }
  return accountJwt(operator, account, `cell ${name}`, claims, now)
}

/** Only servers may connect with it. */
const asLeaf = { allowed_connection_types: ['LEAFNODE'] }

/**
 * Credentials for a leaf server's link in its cell's account. It sends what nodes send, and receives what they receive.
 */
export function leafUser(operator: NatsOperator, { name, account }: LinkedCell, now: number): NatsCredentials {
  const { sent, heard } = subjectsOf(name)
  const key = newNatsKey('user')
  const nats = {
    ...{ ...allUser, ...asLeaf, issuer_account: account },
    pub: { allow: [`${apiPrefix}.>`, ...sent] },
    // Replies use subjects that servers create.
    sub: { allow: [...heard, '_R_.>'] },
  }
  const claim = { subject: key.publicKey, name: `leaf of ${name}`, nats, now }
  return { jwt: signNatsJwt(operator.keys.nodes.seed, claim), seed: key.seed }
}

/**
 * Credentials for its link in the system account, from which it receives accounts and revocations. It cannot create any.
 */
export const leafSystemUser = ({ keys }: NatsOperator, now: number): NatsCredentials =>
  ownUser(
    keys.system,
    'leaf server',
    {
      ...asLeaf,
      pub: { allow: ['$SYS.REQ.ACCOUNT.*.CLAIMS.LOOKUP', '$SYS.REQ.CLAIMS.PACK'] },
      sub: {
        allow: [
          '$SYS.REQ.CLAIMS.UPDATE',
          '$SYS.REQ.ACCOUNT.*.CLAIMS.UPDATE',
          '$SYS.ACCOUNT.*.CLAIMS.UPDATE',
          '$SYS._INBOX.>',
        ],
      },
    },
    now,
  )
