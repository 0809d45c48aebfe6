import { mkdirSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import type { Config } from '../../config/config.ts'
import { natsServers } from '../../config/values.ts'
import type { DbPool } from '../../db/pool.ts'
import { transaction } from '../../db/transaction.ts'
import { credentialsText } from '../../distribution/credentials_file.ts'
import { requiresTls } from '../../distribution/nats_connection.ts'
import { closeCellAccount, openCellAccount } from '../../fleet/cell_accounts.ts'
import { leafSystemUser, leafUser } from '../../fleet/leaf_links.ts'
import type { NatsOperator } from '../../fleet/nats_accounts.ts'
import { type LeafRemote, operatorConf, remotesConf } from '../../fleet/nats_config.ts'
import { recordFleetEvent } from '../../fleet/node_store.ts'
import { ConfigError } from '../../kernel/config_error.ts'
import { findCell } from '../../operations/placement.ts'
import { writeSecretOnce } from '../secret_file.ts'

const text = { type: 'string' } as const
const usage = 'usage: gatehouse nats leaf CELL… --hub URL,… --address URL,… --out FOLDER'
/** Folder of the files on the leaf server's machine. */
const installed = '/etc/gatehouse-nats'
const accounts = { ...text, default: '/var/lib/gatehouse-nats/accounts' }

/** Writes the files for a leaf server to which nodes of these cells connect. */
export async function leaf(db: DbPool, config: Config, operator: NatsOperator, args: string[]): Promise<number> {
  const { values, positionals: cells } = parseArgs({
    args,
    options: { hub: text, address: text, out: text, at: { ...text, default: installed }, folder: accounts },
    allowPositionals: true,
  })
  const { hub, address, out, at } = values
  if (cells.length === 0 || !hub || !address || !out) throw new ConfigError(usage)
  const [urls, servers] = [natsServers(hub), natsServers(address)]
  const caFile = config.GATEHOUSE_NATS_CA_FILE
  if (requiresTls({ caFile, servers: config.GATEHOUSE_NATS_URL }) && !requiresTls({ servers }))
    throw new ConfigError('--address must begin with tls://, as GATEHOUSE_NATS_URL does: nodes refuse NATS without TLS')
  const folder = resolve(out)
  // Runs first: an existing folder may belong to another leaf server.
  makeFolder(folder)
  const linked = await transaction(db, async (tx) => {
    const found: { name: string; account: string }[] = []
    for (const name of cells) {
      const cell = await findCell(tx, name)
      if (!cell) throw new ConfigError(`there is no cell ${name}. 'gatehouse cells list' prints all of them`)
      found.push({ name, account: await openCellAccount(tx, cell, servers) })
      await recordFleetEvent(tx, { operation: 'cell_linked', detail: `${name}: its nodes use ${servers.join(', ')}` })
    }
    return found
  })
  const now = Date.now()
  const remotes: LeafRemote[] = [
    { account: operator.keys.system.publicKey, file: 'system.creds', user: leafSystemUser(operator, now) },
    ...linked.map((cell) => ({
      account: cell.account,
      file: `cell-${cell.name}.creds`,
      user: leafUser(operator, cell, now),
    })),
  ]
  const files = {
    ...Object.fromEntries(remotes.map(({ file, user }) => [file, credentialsText(user)])),
    ...(caFile && { 'hub-ca.pem': readFileSync(caFile, 'utf8') }),
    'operator.conf': operatorConf(operator, values.folder, now),
    'remotes.conf': remotesConf(remotes, urls, at, caFile !== ''),
  }
  for (const [name, content] of Object.entries(files)) writeSecretOnce(join(folder, name), content)
  console.log(`${Object.keys(files).join(', ')} are in ${folder}. Copy them to ${at} on the machine of the leaf server`)
  console.error('These files are secret: a server that has them can do what the nodes of these cells can do')
  return 0
}

function makeFolder(folder: string): void {
  try {
    mkdirSync(folder, { mode: 0o700 })
  } catch (cause) {
    throw new ConfigError(`${folder} cannot be made: ${(cause as Error).message}`, { cause })
  }
}

/** Recorded first, then enforced: a running `serve` sends it to NATS within seconds. */
export async function unlink(db: DbPool, args: string[]): Promise<number> {
  const { positionals } = parseArgs({ args, options: {}, allowPositionals: true })
  const [name, ...more] = positionals
  if (!name || more.length > 0) throw new ConfigError('usage: gatehouse nats unlink CELL')
  const isClosed = await transaction(db, async (tx) => {
    const cell = await findCell(tx, name)
    if (!cell || !(await closeCellAccount(tx, cell))) return false
    await recordFleetEvent(tx, { operation: 'cell_unlinked', detail: name })
    return true
  })
  if (!isClosed) {
    console.error(`gatehouse: no leaf server links to a cell ${name}`)
    return 1
  }
  console.log(`Within seconds, NATS closes the links of all leaf servers in ${name}`)
  return 0
}
