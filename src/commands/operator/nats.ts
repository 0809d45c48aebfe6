import { parseArgs } from 'node:util'
import type { Config } from '../../config/config.ts'
import { transaction } from '../../db/transaction.ts'
import { newNatsOperator } from '../../fleet/nats_accounts.ts'
import { operatorConf } from '../../fleet/nats_config.ts'
import { recordFleetEvent } from '../../fleet/node_store.ts'
import { insertNatsOperator, loadNatsOperator } from '../../fleet/operator_store.ts'
import { ConfigError } from '../../kernel/config_error.ts'
import { withDatabase } from '../database.ts'
import { writeSecretOnce } from '../secret_file.ts'
import { openSecretsBox } from '../secrets_key.ts'

const options = {
  'root-key': { type: 'string' },
  folder: { type: 'string', default: '/var/lib/gatehouse-nats/accounts' },
} as const

/** `init` makes the keys of operator mode, `conf` prints what nats.conf includes for it. */
export const nats = (config: Config, verb: string, args: string[]): Promise<number> => {
  const { values } = parseArgs({ args, options })
  const box = openSecretsBox(config)
  if (!box) throw new ConfigError('GATEHOUSE_SECRETS_KEY_FILE is not set, and encrypts the keys that sign for NATS')
  return withDatabase(config, async (db) => {
    switch (verb) {
      case 'init': {
        const file = values['root-key']
        if (!file) throw new ConfigError('--root-key FILE is required: the file for the root key, to be kept offline')
        if (await loadNatsOperator(db, box)) {
          console.error("gatehouse: there is an operator already. 'gatehouse nats conf' prints its configuration")
          return 1
        }
        const { operator, rootSeed } = newNatsOperator(Date.now())
        // First: if it cannot be written, nothing has been changed.
        writeSecretOnce(file, `${rootSeed}\n`)
        const isNew = await transaction(db, async (tx) => {
          if (!(await insertNatsOperator(tx, box, operator))) return false
          await recordFleetEvent(tx, { operation: 'operator_created' })
          return true
        })
        if (!isNew) throw new ConfigError('another process has made an operator meanwhile. The root key is of no use')
        console.error(
          `The root key is in ${file}. Move it to a safe place away from this machine. 'gatehouse nats conf' prints what nats.conf has to include in place of authorization.conf.`,
        )
        return 0
      }
      case 'conf': {
        const operator = await loadNatsOperator(db, box)
        if (!operator) {
          console.error("gatehouse: there is no operator yet. Run 'gatehouse nats init'")
          return 1
        }
        process.stdout.write(operatorConf(operator, values.folder, Date.now()))
        return 0
      }
      default:
        console.error("gatehouse: unknown command; expected 'nats' init or conf")
        return 2
    }
  })
}
