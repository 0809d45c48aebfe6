// A nats-server in operator mode, with the file that `gatehouse nats init` writes.

import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { connect, jwtAuthenticator, type NatsConnection } from '@nats-io/transport-node'
import { type LocalNats, startNats, startNatsCluster } from '../../dev/nats.ts'
import { inboxOf } from '../../src/distribution/channels.ts'
import type { NatsCredentials } from '../../src/distribution/nats_connection.ts'
import { pushAccount } from '../../src/fleet/account_push.ts'
import {
  accountPusher,
  controlAccountJwt,
  controlPlaneUser,
  type NatsOperator,
  newNatsOperator,
  nodeAccountJwt,
  nodeUserJwt,
} from '../../src/fleet/nats_accounts.ts'
import { operatorConf } from '../../src/fleet/nats_config.ts'
import { newNatsKey, seedBytes } from '../../src/fleet/nats_jwt.ts'
import { defaultCellName } from '../../src/kernel/edge/cells.ts'
import type { Scope } from '../harness/control_plane.ts'

export type OperatorNats = LocalNats & { operator: NatsOperator; folder: string }

export async function startOperatorNats(
  scope: Scope,
  operator = newNatsOperator(Date.now()).operator,
  more = '',
): Promise<OperatorNats> {
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-nats-'))
  const authorization = join(folder, 'operator.conf')
  await writeFile(authorization, operatorConf(operator, join(folder, 'accounts'), Date.now()) + more)
  const nats = await startNats({ authorization })
  scope.after(async () => {
    await nats.stop()
    await rm(folder, { recursive: true, force: true })
  })
  return { ...nats, operator, folder }
}

/** Three servers of that kind, each with its own copy of the accounts. */
export async function startOperatorNatsCluster(scope: Scope, operator: NatsOperator, more: readonly string[] = []) {
  const folder = await mkdtemp(join(tmpdir(), 'gatehouse-nats-'))
  scope.after(() => rm(folder, { recursive: true, force: true }))
  return startNatsCluster(3, async (server) => {
    const authorization = join(folder, `operator-${server}.conf`)
    const conf = operatorConf(operator, join(folder, `accounts-${server}`), Date.now())
    await writeFile(authorization, conf + (more[server] ?? ''))
    return authorization
  })
}

export async function connectWith(
  scope: Scope,
  { url }: Pick<LocalNats, 'url'>,
  { jwt, seed }: NatsCredentials,
  options: Parameters<typeof connect>[0] = {},
): Promise<NatsConnection> {
  const nats = await connect({ servers: url, authenticator: jwtAuthenticator(jwt, seedBytes(seed)), ...options })
  scope.after(() => nats.close())
  return nats
}

/** As the control plane: its account is pushed first. */
export async function openControl(scope: Scope, nats: OperatorNats) {
  const system = await connectWith(scope, nats, accountPusher(nats.operator, Date.now()))
  await pushAccount(system, controlAccountJwt(nats.operator, Date.now()))
  return { system, control: await connectWith(scope, nats, controlPlaneUser(nats.operator, Date.now())) }
}

/** A node with an account of its own, without an agent. */
export async function addNode(
  scope: Scope,
  nats: Pick<OperatorNats, 'url' | 'operator'>,
  system: NatsConnection,
  name: string,
  cell: string = defaultCellName,
  wave = 0,
  cellAccount: string | null = null,
) {
  const [{ publicKey: account }, key] = [newNatsKey('account'), newNatsKey('user')]
  await pushAccount(system, nodeAccountJwt(nats.operator, { name, cell, wave, account, cellAccount }, Date.now()))
  const jwt = nodeUserJwt(nats.operator, { name, account, user: key.publicKey }, Date.now())
  const credentials = { jwt, seed: key.seed }
  const connection = await connectWith(scope, nats, credentials, { inboxPrefix: inboxOf(name) })
  return { name, cell, wave, account, cellAccount, credentials, connection }
}
