import type { NatsCredentials } from '../distribution/nats_connection.ts'
import { type NatsOperator, systemAccountJwt } from './nats_accounts.ts'

/**
 * The file that nats.conf includes in place of authorization.conf. It is the same on every server, with any nodes,
 * cells and accounts: NATS receives those at run time, and stores them in `folder`.
 */
export const operatorConf = (operator: NatsOperator, folder: string, now: number): string => `\
# Operator mode: NATS trusts the operator's key, and Gatehouse gives it the account of each node. Made by
# 'gatehouse nats init'. Nothing in it is secret.
operator: "${operator.jwt}"
system_account: ${operator.keys.system.publicKey}
resolver { type: full, dir: "${folder}", allow_delete: false, interval: "5s", timeout: "2s" }
resolver_preload { ${operator.keys.system.publicKey}: "${systemAccountJwt(operator, now)}" }
`

export type LeafRemote = { readonly account: string; readonly file: string; readonly user: NatsCredentials }

/** For the `leafnodes` block of a leaf server. NATS reads the credentials files in `folder`. */
export const remotesConf = (
  remotes: readonly Pick<LeafRemote, 'account' | 'file'>[],
  urls: readonly string[],
  folder: string,
  hasCa: boolean,
): string => {
  const tls = hasCa ? `, tls { ca_file: "${folder}/hub-ca.pem" }` : ''
  const links = remotes.map(
    ({ account, file }) =>
      `  { urls: ${JSON.stringify(urls)}, account: ${account}, credentials: "${folder}/${file}"${tls} }`,
  )
  return `\
# One link for the accounts of nodes, and one for each cell. Made by 'gatehouse nats leaf'.
remotes: [
${links.join('\n')}
]
`
}
