import { rmSync } from 'node:fs'
import { parseArgs } from 'node:util'
import type { Config } from '../../config/config.ts'
import type { DbPool } from '../../db/pool.ts'
import { transaction } from '../../db/transaction.ts'
import { type NatsOperator, newNatsOperator } from '../../fleet/nats_accounts.ts'
import { operatorConf } from '../../fleet/nats_config.ts'
import { recordFleetEvent } from '../../fleet/node_store.ts'
import { insertNatsOperator, loadNatsOperator } from '../../fleet/operator_store.ts'
import { ConfigError } from '../../kernel/config_error.ts'
import type { SecretsBox } from '../../kernel/crypto/secrets_box.ts'
import { UnreadableSecret } from '../../kernel/crypto/unreadable_secret.ts'
import { withDatabase } from '../database.ts'
import { writeSecretOnce } from '../secret_file.ts'
import { openSecretsBox } from '../secrets_key.ts'
import { leaf, unlink } from './leaf.ts'

/** Folder in which nats-server stores the accounts that it receives. */
export const accountsFolder = '/var/lib/gatehouse-nats/accounts'
const options = {
  'root-key': { type: 'string' },
  folder: { type: 'string', default: accountsFolder },
} as const

/**
 * `init` creates the keys of operator mode, `conf` prints the file that nats.conf includes; the others are for leaf
 * servers.
 */
export const nats = (config: Config, verb: string, args: string[]): Promise<number> => {
  requireSecretsBox(config)
  return withDatabase(config, async (db) => {
    switch (verb) {
      case 'init':
        return init(db, config, args)
      case 'conf': {
        const { values } = parseArgs({ args, options: { folder: options.folder } })
        const conf = await natsOperatorConf(db, config, values.folder)
        if (!conf) return withoutOperator()
        process.stdout.write(conf)
        return 0
      }
      case 'leaf': {
        const operator = await loadOperator(db, config)
        return operator ? leaf(db, config, operator, args) : withoutOperator()
      }
      case 'unlink':
        return unlink(db, args)
      default:
        console.error("gatehouse: unknown command; expected 'nats' init, conf, leaf or unlink")
        return 2
    }
  })
}

async function init(db: DbPool, config: Config, args: string[]): Promise<number> {
  const { values } = parseArgs({ args, options })
  const file = values['root-key']
  if (!file) throw new ConfigError('--root-key FILE is required: the file for the root key, to be kept offline')
  if (await loadOperator(db, config)) {
    console.error("gatehouse: there is an operator already. 'gatehouse nats conf' prints its configuration")
    return 1
  }
  await createNatsOperator(db, config, file)
  console.error(
    `${file === printed ? 'This is the root key' : `The root key is in ${file}`}. Keep it in a safe place away from this machine. 'gatehouse nats conf' prints what nats.conf has to include.`,
  )
  return 0
}

function withoutOperator(): number {
  console.error("gatehouse: there is no operator yet. Run 'gatehouse nats init'")
  return 1
}

function requireSecretsBox(config: Config): SecretsBox {
  const box = openSecretsBox(config)
  if (!box) throw new ConfigError('GATEHOUSE_SECRETS_KEY_FILE is not set, and encrypts the keys that sign for NATS')
  return box
}

/** The file that nats.conf includes. Undefined without an operator. */
export async function natsOperatorConf(db: DbPool, config: Config, folder: string): Promise<string | undefined> {
  const operator = await loadOperator(db, config)
  return operator && operatorConf(operator, folder, Date.now())
}

async function loadOperator(db: DbPool, config: Config): Promise<NatsOperator | undefined> {
  try {
    return await loadNatsOperator(db, requireSecretsBox(config))
  } catch (error) {
    if (!(error instanceof UnreadableSecret)) throw error
    throw new ConfigError(
      `the keys that sign for NATS cannot be read: ${error.message}. Restore the secrets key with which they were made`,
    )
  }
}

/** In place of a file name: prints the key, for example in a container, whose files do not persist. */
const printed = '-'

/** Runs once per installation, because all nodes depend on the operator. The file receives the root key. */
export async function createNatsOperator(db: DbPool, config: Config, rootKeyFile: string): Promise<void> {
  const box = requireSecretsBox(config)
  const { operator, rootSeed } = newNatsOperator(Date.now())
  // Written first: if this fails, nothing has changed.
  if (rootKeyFile === printed) console.log(rootSeed)
  else writeSecretOnce(rootKeyFile, `${rootSeed}\n`)
  try {
    await transaction(db, async (tx) => {
      if (!(await insertNatsOperator(tx, box, operator)))
        throw new ConfigError('another process has made an operator meanwhile')
      await recordFleetEvent(tx, { operation: 'operator_created' })
    })
  } catch (error) {
    if (rootKeyFile !== printed) rmSync(rootKeyFile)
    throw error
  }
}
