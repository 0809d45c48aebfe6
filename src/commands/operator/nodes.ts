import { parseArgs } from 'node:util'
import type { Config } from '../../config/config.ts'
import type { DbPool } from '../../db/pool.ts'
import { transaction } from '../../db/transaction.ts'
import { natsHost, tryNats, withoutPassword } from '../../distribution/nats_connection.ts'
import { pushAccount } from '../../fleet/account_push.ts'
import { inviteNode } from '../../fleet/join.ts'
import { withdrawJoinTokens } from '../../fleet/join_token.ts'
import { accountPusher, closedAccountJwt } from '../../fleet/nats_accounts.ts'
import {
  type FleetNode,
  findFleetNode,
  latestFleetEvents,
  listFleetNodes,
  recordFleetEvent,
  setRevoked,
} from '../../fleet/node_store.ts'
import { loadNatsOperator } from '../../fleet/operator_store.ts'
import { ConfigError } from '../../kernel/config_error.ts'
import { maxWaves } from '../../kernel/edge/cells.ts'
import { defaultCell, findCell } from '../../operations/placement.ts'
import { removeNodeKey, replaceDeliveryKey } from '../../publisher/nodes/node_keys.ts'
import { withDatabase } from '../database.ts'
import { readLife } from '../life.ts'
import { nodeNameFlag } from '../node_name.ts'
import { openSecretsBox, requireSecretsBox } from '../secrets_key.ts'

const text = { type: 'string' } as const
const shownEvents = 200

export const nodes = (config: Config, verb: string, args: string[]): Promise<number> =>
  withDatabase(config, async (db) => {
    switch (verb) {
      case 'list':
        parseArgs({ args, options: {} })
        for (const { name, cell, wave, joinedAt, revokedAt, user } of await listFleetNodes(db))
          console.log(JSON.stringify({ name, cell, wave, joined_at: joinedAt, revoked_at: revokedAt, nats_user: user }))
        return 0
      case 'events':
        parseArgs({ args, options: {} })
        for (const event of (await latestFleetEvents(db, shownEvents)).reverse()) console.log(JSON.stringify(event))
        return 0
      case 'invite':
        return invite(config, db, args)
      case 'revoke': {
        const { positionals } = parseArgs({ args, options: {}, allowPositionals: true })
        const [name, ...more] = positionals
        if (!name || more.length > 0) throw new ConfigError('usage: gatehouse nodes revoke NAME')
        return revoke(config, db, name)
      }
      default:
        console.error("gatehouse: unknown command; expected 'nodes' list, invite, revoke or events")
        return 2
    }
  })

/** Creates an invitation for a machine whose name is known. */
export const newInvitation = (config: Config, name: string, lifeSeconds: number): Promise<string> =>
  withDatabase(config, (db) => inviteNode(db, { cell: defaultCell, wave: 0, name, lifeSeconds }))

async function invite(config: Config, db: DbPool, args: string[]): Promise<number> {
  const { values } = parseArgs({
    args,
    options: {
      name: text,
      cell: { ...text, default: defaultCell.name },
      wave: { ...text, default: '0' },
      expires: { ...text, default: '1h' },
    },
  })
  const name = values.name === undefined ? null : nodeNameFlag(values.name)
  const wave = /^\d$/.test(values.wave) ? Number(values.wave) : maxWaves
  if (wave >= maxWaves) throw new ConfigError(`--wave must be a number from 0 to ${maxWaves - 1}`)
  const lifeSeconds = readLife('--expires', values.expires, longestLifeSeconds)
  if (!(await loadNatsOperator(db, openSecretsBox(config)))) {
    console.error("gatehouse: NATS has its users in a configuration file. Run 'gatehouse nats init' first")
    return 1
  }
  if (name && (await findFleetNode(db, name))) {
    console.error(`gatehouse: ${name} has joined already. To replace it, run 'gatehouse nodes revoke ${name}' first`)
    return 1
  }
  const cell = await findCell(db, values.cell)
  if (!cell) {
    console.error(`gatehouse: there is no cell ${values.cell}. 'gatehouse cells list' prints all of them`)
    return 1
  }
  const token = await inviteNode(db, { cell, wave, name, lifeSeconds })
  if (isClosed(config))
    console.error(
      `gatehouse: warning: nodes on other machines cannot reach NATS at ${natsOf(config).join(', ')}. Run 'gatehouse setup --public-url URL' with the URL under which they reach this control plane, or set GATEHOUSE_NATS_PUBLIC_URL`,
    )
  console.log(token)
  console.error(
    `Valid once, for ${values.expires}. On the node: gatehouse-edge join ${config.GATEHOUSE_PUBLIC_URL} --token TOKEN`,
  )
  return 0
}

const natsOf = ({ GATEHOUSE_NATS_PUBLIC_URL: own, GATEHOUSE_NATS_URL: ours }: Config): string[] =>
  own.length > 0 ? own : ours.map(withoutPassword)

const isClosed = (config: Config): boolean =>
  natsOf(config).every((server) => /^(localhost|127\..*|::1)$/.test(natsHost(server).host))

const longestLifeSeconds = 7 * 24 * 60 * 60

/** Recorded first, then enforced: if NATS cannot be told now, a running `serve` tells it later. */
async function revoke(config: Config, db: DbPool, name: string): Promise<number> {
  const box = requireSecretsBox(config)
  const node = await transaction(db, async (tx) => {
    // Withdrawn first: a machine that is just joining with a token is found among the nodes afterwards.
    const wasInvited = await withdrawJoinTokens(tx, name)
    const revoked = await setRevoked(tx, name)
    if (wasInvited) await recordFleetEvent(tx, { operation: 'revoked', node: name, detail: 'an unused join token' })
    if (!revoked) return wasInvited ? 'invited' : undefined
    await removeNodeKey(tx, name)
    await replaceDeliveryKey(tx, { id: revoked.cellId, name: revoked.cell }, box)
    await recordFleetEvent(tx, { operation: 'revoked', node: name })
    return revoked
  })
  if (!node) {
    console.error(
      `gatehouse: no node with the name ${name} has joined or is invited. 'gatehouse nodes list' prints those that have joined`,
    )
    return 1
  }
  if (node === 'invited') {
    console.log(`${name} had not joined. Its token is no longer valid`)
    return 0
  }
  try {
    await closeAtNats(config, db, node)
    console.log(`${name} is revoked, and NATS has closed its connection`)
  } catch (error) {
    console.log(
      `${name} is revoked. NATS does not answer now (${(error as Error).message}): the control plane closes its connection as soon as it does`,
    )
  }
  return 0
}

async function closeAtNats(config: Config, db: DbPool, node: FleetNode): Promise<void> {
  const operator = await loadNatsOperator(db, openSecretsBox(config))
  if (!operator) return
  const pusher = accountPusher(operator, Date.now())
  const connection = await tryNats(
    {
      servers: config.GATEHOUSE_NATS_URL,
      caFile: config.GATEHOUSE_NATS_CA_FILE,
      name: 'gatehouse nodes revoke',
      credentials: () => pusher,
    },
    2_000,
  )
  try {
    await pushAccount(connection, closedAccountJwt(operator, node, Date.now()))
  } finally {
    await connection.close()
  }
}
