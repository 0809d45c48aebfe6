import type { NatsConnection } from '@nats-io/transport-node'
import type { DbPool } from '../db/pool.ts'
import type { Clock } from '../kernel/clock.ts'
import { inParallel } from '../kernel/flow/in_parallel.ts'
import { cellAccounts } from './cell_accounts.ts'
import { cellAccountJwt } from './leaf_links.ts'
import { closedAccountJwt, controlAccountJwt, type NatsOperator, nodeAccountJwt } from './nats_accounts.ts'
import { fleetVersion, nodesForNats } from './node_store.ts'

const timeout = 2_000
const pushedAtOnce = 20

/** Resolves once NATS has stored it; servers of a cluster share it. Throws if NATS does not accept it. */
export async function pushAccount(system: Pick<NatsConnection, 'request'>, accountJwt: string): Promise<void> {
  const answer = await system.request('$SYS.REQ.CLAIMS.UPDATE', accountJwt, { timeout })
  const { data, error } = answer.json<{ data?: { code?: number }; error?: { description?: string } }>()
  if (data?.code !== 200) throw new Error(`NATS refused an account: ${error?.description ?? answer.string()}`)
}

/** Pushes the accounts of the control plane and of each node to NATS, and tracks which ones NATS has. */
export function createAccountPush(db: DbPool, clock: Clock) {
  /** The pushed JWT of each account. Cleared if a NATS server may have fewer, for example because it was down. */
  const pushed = new Map<string, string>()
  let pushedVersion: string | undefined
  /** Number of times that a server may have lost accounts, including during a push. */
  let losses = 0

  async function push(system: NatsConnection, account: string, state: string, jwt: () => string): Promise<void> {
    if (pushed.get(account) === state) return
    const lossesBefore = losses
    await pushAccount(system, jwt())
    if (losses === lossesBefore) pushed.set(account, state)
  }

  return {
    forget(): void {
      losses++
      pushed.clear()
      pushedVersion = undefined
    },
    /** Resolves to whether NATS has all accounts. */
    async pushChanged(system: NatsConnection, operator: NatsOperator): Promise<boolean> {
      const lossesBefore = losses
      const version = await fleetVersion(db)
      if (version === pushedVersion) return true
      await push(system, operator.keys.control.publicKey, 'open', () => controlAccountJwt(operator, clock()))
      // Pushed before the nodes' accounts, which import from these.
      for (const { account, cell } of await cellAccounts(db))
        await (cell === null
          ? push(system, account, 'closed', () => closedAccountJwt(operator, { account, name: 'closed' }, clock()))
          : push(system, account, 'open', () => cellAccountJwt(operator, { account, name: cell }, clock())))
      await inParallel(await nodesForNats(db), pushedAtOnce, (node) =>
        node.revokedAt === null
          ? push(system, node.account, `open ${node.cellAccount}`, () => nodeAccountJwt(operator, node, clock()))
          : push(system, node.account, 'closed', () => closedAccountJwt(operator, node, clock())),
      )
      if (losses !== lossesBefore) return false
      pushedVersion = version
      return true
    },
  }
}
