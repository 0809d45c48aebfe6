import type { NatsConnection } from '@nats-io/transport-node'
import type { DbPool } from '../db/pool.ts'
import { allRenewals, renewalSubject, senderOf } from '../distribution/channels.ts'
import { connectNats, type NatsCredentials } from '../distribution/nats_connection.ts'
import type { Clock } from '../kernel/clock.ts'
import type { SecretsBox } from '../kernel/crypto/secrets_box.ts'
import { createAccountPush, pushAccount } from './account_push.ts'
import {
  accountPusher,
  controlPlaneUser,
  type NatsNode,
  type NatsOperator,
  nodeAccountJwt,
  nodeUserJwt,
} from './nats_accounts.ts'
import { type FleetNode, findFleetNode } from './node_store.ts'
import { loadNatsOperator } from './operator_store.ts'

type Parts = {
  db: DbPool
  secrets: SecretsBox | undefined
  clock: Clock
  /** With a password, the control plane also connects to a NATS that has its users in a configuration file. */
  nats: { servers: string[]; caFile: string; hasPassword: boolean }
  onError: (error: unknown, message: string) => void
}

/** What `serve` does for NATS in operator mode. While the database has no operator, nothing. */
export type Fleet = {
  /** Undefined: the control plane has its password only. */
  readonly credentials: () => NatsCredentials | undefined
  readonly operator: () => NatsOperator | undefined
  /** Whether the database has been asked for an operator. */
  readonly isLoaded: () => boolean
  /** NATS may lack the account of a node, or a revocation. Undefined without an operator. */
  readonly isOutdated: () => boolean | undefined
  /** To be called every other second: gives NATS each account that it may not have. */
  readonly keep: () => Promise<void>
  /**
   * Resolves when NATS lets the node connect; to false when NATS still has its users in a configuration file, and cannot
   * know of the node before that changes. Throws when NATS does not answer.
   */
  readonly admit: (node: NatsNode) => Promise<boolean>
  /** Answers nodes that ask for a new JWT, on the connection of the control plane. */
  readonly listen: (control: NatsConnection, isConnected: () => boolean) => void
  readonly stop: () => Promise<void>
}

export function createFleet({ db, secrets, clock, nats, onError }: Parts): Fleet {
  const ending = new AbortController()
  let operator: NatsOperator | undefined
  let own: NatsCredentials | undefined
  let system: NatsConnection | undefined
  let isSystemOpen = false
  let isControlOpen = () => false
  const accounts = createAccountPush(db, clock)
  let isLoaded = false
  let isKept = false

  async function openSystem(pusher: NatsCredentials): Promise<void> {
    const { signal } = ending
    const { servers, caFile } = nats
    system = await connectNats({ servers, caFile, name: 'gatehouse accounts', credentials: () => pusher, signal })
    const changes = system.status()
    isSystemOpen = true
    // At once: until NATS has the account of the control plane, nothing of it can connect.
    void keep().catch((error) => onError(error, 'cannot give NATS the accounts of edge nodes yet; retrying'))
    for await (const { type } of changes) {
      if (type === 'reconnect' || type === 'disconnect') isSystemOpen = type === 'reconnect'
      if (type === 'reconnect' || type === 'update') accounts.forget()
    }
  }

  async function load(): Promise<void> {
    operator = await loadNatsOperator(db, secrets)
    isLoaded = true
    if (!operator) return
    own = controlPlaneUser(operator, clock())
    // Not waited for: NATS may be down, or still have its users in a configuration file.
    openSystem(accountPusher(operator, clock())).catch((error) => {
      if (!ending.signal.aborted) onError(error, 'the connection that gives NATS its accounts failed')
    })
  }

  async function keep(): Promise<void> {
    try {
      if (!operator) await load()
      isKept = operator && system && !system.isClosed() ? await accounts.pushChanged(system, operator) : false
    } catch (error) {
      isKept = false
      throw error
    }
  }

  return {
    credentials: () => own,
    operator: () => operator,
    isLoaded: () => isLoaded,
    isOutdated: () => operator && !isKept,
    keep,
    async admit(node) {
      if (!isSystemOpen && nats.hasPassword && isControlOpen()) return false
      if (!operator || !system) throw new Error('NATS has not been reached yet')
      await pushAccount(system, nodeAccountJwt(operator, node, clock()))
      return true
    },
    listen(connection, isConnected) {
      isControlOpen = isConnected
      answerRenewals(connection, { db, onError }, (node) => operator && nodeUserJwt(operator, node, clock()))
    },
    async stop() {
      ending.abort()
      await system?.close()
    },
  }
}

/** NATS lets a node ask under its own name only. A process without keys leaves the answer to another, or to the next time. */
function answerRenewals(
  connection: NatsConnection,
  { db, onError }: Pick<Parts, 'db' | 'onError'>,
  sign: (node: FleetNode) => string | undefined,
): void {
  for (const subject of allRenewals)
    connection.subscribe(subject, {
      queue: 'gatehouse',
      callback(error, message) {
        if (error) return
        const { cell, node: name } = senderOf(message.subject)
        findFleetNode(db, name).then(
          (node) => {
            // Through the account of a cell, a leaf server asks under any name.
            const mayAsk = message.subject === renewalSubject(name) || node?.cell === cell
            const jwt = node && mayAsk && sign(node)
            if (jwt) message.respond(jwt)
          },
          (failure) => onError(failure, 'cannot renew the NATS credentials of an edge node; it will ask again'),
        )
      },
    })
}
